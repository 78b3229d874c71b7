//! One task that turns requests into rows and rows into text.
