//! Chat templates, and what models write in the formats of those templates.
//!
//! [`Template`] turns a [`Conversation`] into [`Part`]s: control tokens, text and documents. [`Reader`] turns what the
//! model writes back into content, reasoning and tool calls. Pure: no tokens, no HTTP, no files.
//!
//! **Invariant:** a control token comes from the template's own words. What a client sends, in messages, documents,
//! tools or variables, is text whatever it spells, and whatever the template does with it.

mod conversation;
mod dialect;
mod environment;
mod json;
mod marks;
mod part;
mod reply;
mod template;

#[cfg(test)]
mod tests;

pub use conversation::{Conversation, Ending, Message, Piece, Role};
pub use dialect::Dialect;
pub use part::Part;
pub use reply::{News, Reader, Reading, ToolCall, ToolFormat, UnknownFormat};
pub use template::{RenderError, Rendered, Specials, Template, TemplateError};
