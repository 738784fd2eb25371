//! What every controller shares: clock, context, watches, status writes, events, retries.
