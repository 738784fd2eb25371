//! `ModuleRevision`: what a revision was, and its story.
