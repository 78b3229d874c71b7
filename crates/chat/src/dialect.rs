//! How a model chats.

use crate::{Conversation, Part, Reading, RenderError, Rendered, Template, ToolFormat};

/// A chat template and what answers to it look like.
pub struct Dialect {
    template: Template,
    tools: Option<ToolFormat>,
    takes_tools: bool,
    thinks: bool,
}

impl Dialect {
    /// The dialect of a template. Its tool calls are in the format `tools`, or in the one that the template tells.
    pub fn new(template: Template, tools: Option<ToolFormat>) -> Self {
        let source = template.source();
        Self {
            tools: tools.or_else(|| ToolFormat::of_template(source)),
            takes_tools: template.takes("tools"),
            thinks: source.contains("</think>"),
            template,
        }
    }

    /// Whether the template shows tools to the model.
    pub fn takes_tools(&self) -> bool {
        self.takes_tools
    }

    /// The format of tool calls, if it is known.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.tools
    }

    /// Renders a conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<Rendered, RenderError> {
        self.template.render(conversation)
    }

    /// How the reply to a rendered conversation is read. `parallel`: there may be several calls.
    pub fn reading(&self, rendered: &Rendered, tools: bool, parallel: bool) -> Reading {
        Reading {
            tools: self.tools.filter(|_| tools),
            parallel,
            reasoning: self.thinks,
            thinking: opens_thoughts(&rendered.parts),
        }
    }
}

/// Whether what the template wrote last opens the model's thoughts.
fn opens_thoughts(parts: &[Part]) -> bool {
    let written = parts.iter().rev().find_map(|part| match part {
        Part::Text(text) | Part::Control(text) if !text.trim().is_empty() => Some(text.trim_end()),
        Part::Text(_) | Part::Control(_) | Part::Document(_) => None,
    });
    written.is_some_and(|text| text.ends_with("<think>"))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{Ending, Specials};

    fn dialect(source: &str) -> Dialect {
        let specials = Specials {
            all: vec!["<think>".to_owned()],
            ..Specials::default()
        };
        Dialect::new(Template::new(source, specials).expect("a template"), None)
    }

    fn thinking(source: &str) -> (bool, bool) {
        let conversation = Conversation {
            messages: Vec::new(),
            documents: 0,
            tools: Vec::new(),
            tool_choice: None,
            variables: Map::new(),
            ending: Ending::Answer,
        };
        let dialect = dialect(source);
        let rendered = dialect.render(&conversation).expect("rendered");
        let reading = dialect.reading(&rendered, true, true);
        (reading.reasoning, reading.thinking)
    }

    #[test]
    fn a_template_tells_whether_the_model_thinks_and_whether_it_has_begun() {
        let opened = "{% if false %}</think>{% endif %}assistant\n<think>\n{{ '' }}";
        assert_eq!(thinking(opened), (true, true));
        assert_eq!(thinking("assistant\n<think>\n\n</think>\n\n"), (true, false));
        assert_eq!(thinking("assistant\n"), (false, false));
    }

    #[test]
    fn tools_are_taken_by_templates_that_name_them() {
        assert!(dialect("{{ tools | tojson }}").takes_tools());
        assert!(!dialect("{{ messages | tojson }}").takes_tools());
    }
}
