//! Label selectors as matchers.
