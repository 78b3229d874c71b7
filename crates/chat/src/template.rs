//! A model's chat template.
//!
//! When a template is read, every control token that its source spells is replaced by a mark. Whatever the template
//! then makes of a client's words, only marks become control tokens. Documents pass through as marks of the one
//! rendering: templates may trim, join or escape around them, but see and change nothing of them.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};
use minijinja::{Environment, Error, value::Serde};
use serde_json::{Map, Value};

use crate::{
    Conversation, Ending, Message, Part, Piece, Role,
    environment::environment,
    marks::{self, Marks, Stretch},
    part::push_text,
};

/// The name of the only template in its environment.
const NAME: &str = "chat_template";

/// Variables that a request's own can't replace.
const RESERVED: [&str; 7] = [
    "messages",
    "documents",
    "tools",
    "tool_choice",
    "add_generation_prompt",
    "bos_token",
    "eos_token",
];

/// The control tokens of a model, as templates spell them.
#[derive(Clone, Debug, Default)]
pub struct Specials {
    /// All of them.
    pub all: Vec<String>,
    /// `bos_token` of templates.
    pub bos: Option<String>,
    /// `eos_token` of templates.
    pub eos: Option<String>,
}

/// A source that is no template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Not Jinja, or nothing that is known here.
    #[error("the chat template can't be read: {0}")]
    Syntax(String),
    /// The control tokens can't be looked for.
    #[error("the control tokens can't be looked for")]
    Specials(#[source] aho_corasick::BuildError),
}

/// A conversation that a template does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The template says so, or fails.
    #[error("the chat template refuses the conversation: {0}")]
    Refused(String),
    /// Documents of the whole conversation stand before a user's text.
    #[error("documents need a message of a user to stand in")]
    NoUser,
    /// The template leaves a document out, repeats it, or cuts it.
    #[error("the chat template does not take document {0} where it stands")]
    Document(usize),
    /// There is no last message to continue, or the template does not say where it ends.
    #[error("the chat template can't end inside the last message")]
    Inside,
    /// A variable that is the server's.
    #[error("`{0}` is no variable of the request")]
    Reserved(String),
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The whole of it.
    pub parts: Vec<Part>,
    /// How it was when the text that follows its last documents was to be answered, if that was before the end.
    pub when_asked: Option<Vec<Part>>,
}

/// A model's chat template.
pub struct Template {
    environment: Environment<'static>,
    source: String,
    specials: Specials,
    marks: Marks,
    variables: HashSet<String>,
}

impl Template {
    /// Reads a template of a model with these control tokens.
    pub fn new(source: &str, mut specials: Specials) -> Result<Self, TemplateError> {
        specials.all.retain(|special| is_spelling(special));
        for named in [&specials.bos, &specials.eos].into_iter().flatten() {
            if !specials.all.contains(named) {
                specials.all.push(named.clone());
            }
        }
        let marks = Marks::new();
        let replacements: Vec<_> = (0..specials.all.len()).map(|number| marks.mark(number)).collect();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&specials.all)
            .map_err(TemplateError::Specials)?;
        let marked = finder.replace_all(source, &replacements);
        let mut environment = environment();
        environment
            .add_template_owned(NAME, marked)
            .map_err(|error| TemplateError::Syntax(error.to_string()))?;
        let variables = environment
            .get_template(NAME)
            .map(|template| template.undeclared_variables(false))
            .unwrap_or_default();
        Ok(Self {
            environment,
            source: source.to_owned(),
            specials,
            marks,
            variables,
        })
    }

    /// The source as it was read.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the template looks at a variable.
    pub fn takes(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// Renders a conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<Rendered, RenderError> {
        let when_asked = conversation.when_asked();
        Ok(Rendered {
            parts: self.parts(conversation)?,
            when_asked: when_asked.and_then(|earlier| self.parts(&earlier).ok()),
        })
    }

    /// Documents stand where the template puts them, if it puts each in one place.
    fn parts(&self, conversation: &Conversation) -> Result<Vec<Part>, RenderError> {
        if self.takes("documents") && conversation.documents > 0 {
            let rendered = self.rendered(conversation, Placing::ByTemplate);
            if !matches!(rendered, Err(RenderError::Document(number)) if number < conversation.documents) {
                return rendered;
            }
        }
        if conversation.documents > 0 && conversation.last_user().is_none() {
            return Err(RenderError::NoUser);
        }
        self.rendered(conversation, Placing::BeforeQuestion)
    }

    fn rendered(&self, conversation: &Conversation, placing: Placing) -> Result<Vec<Part>, RenderError> {
        let rendering = Rendering {
            conversation,
            placing,
            marks: Marks::new(),
            knows_developers: self.source.contains("developer"),
        };
        let mut context = rendering.context()?;
        for (name, special) in [
            ("bos_token", &self.specials.bos),
            ("eos_token", &self.specials.eos),
        ] {
            let mark = special.as_ref().and_then(|special| self.mark(special));
            context.insert(name.to_owned(), mark.into());
        }
        let template = self
            .environment
            .get_template(NAME)
            .map_err(|error| self.refused(&error, &rendering.marks))?;
        let text = template
            .render(Serde(context))
            .map_err(|error| self.refused(&error, &rendering.marks))?;
        rendering.read(self.cut(&text))
    }

    fn mark(&self, special: &str) -> Option<String> {
        let number = self.specials.all.iter().position(|one| one == special)?;
        Some(self.marks.mark(number))
    }

    /// `text` with the control tokens that the template wrote.
    fn cut(&self, text: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        for stretch in self.marks.split(text) {
            match stretch {
                Stretch::Text(text) => push_text(&mut parts, text),
                Stretch::Mark(number) => {
                    parts.extend(self.specials.all.get(number).cloned().map(Part::Control));
                }
            }
        }
        parts
    }

    /// What a template says, with control tokens spelled out and documents left out. A message that would still show
    /// something of a mark is not repeated: marks are as good as control tokens.
    fn refused(&self, error: &Error, documents: &Marks) -> RenderError {
        let kind = error.kind().to_string();
        let message = error.detail().unwrap_or(&kind);
        let mut spelled = String::new();
        for part in self.cut(message) {
            match part {
                Part::Control(special) => spelled.push_str(&special),
                Part::Text(text) => spelled.extend(documents.split(&text).into_iter().map(Stretch::text)),
                Part::Document(_) => {}
            }
        }
        RenderError::Refused(if marks::may_show(&spelled) { kind } else { spelled })
    }
}

/// Where the documents of a whole conversation stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placing {
    ByTemplate,
    BeforeQuestion,
}

/// One rendering of one conversation.
struct Rendering<'c> {
    conversation: &'c Conversation,
    placing: Placing,
    /// A mark a document, and one for the place inside the last message.
    marks: Marks,
    knows_developers: bool,
}

impl Rendering<'_> {
    fn context(&self) -> Result<Map<String, Value>, RenderError> {
        let conversation = self.conversation;
        let mut context = conversation.variables.clone();
        if let Some(reserved) = context.keys().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(RenderError::Reserved(reserved.clone()));
        }
        if conversation.ending == Ending::Inside && conversation.messages.is_empty() {
            return Err(RenderError::Inside);
        }
        let messages = conversation.messages.iter().enumerate();
        let messages = messages.map(|(index, message)| self.message(index, message));
        context.insert("messages".to_owned(), messages.collect());
        let answers = conversation.ending == Ending::Answer;
        context.insert("add_generation_prompt".to_owned(), answers.into());
        if !conversation.tools.is_empty() {
            context.insert("tools".to_owned(), conversation.tools.clone().into());
        }
        if let Some(choice) = &conversation.tool_choice {
            context.insert("tool_choice".to_owned(), choice.clone());
        }
        if self.placing == Placing::ByTemplate {
            let document = |number| serde_json::json!({"text": self.marks.mark(number)});
            let documents = (0..conversation.documents).map(document);
            context.insert("documents".to_owned(), documents.collect());
        }
        Ok(context)
    }

    fn message(&self, index: usize, message: &Message) -> Value {
        let mut content = String::new();
        if self.placing == Placing::BeforeQuestion && self.conversation.last_user() == Some(index) {
            content.extend((0..self.conversation.documents).map(|number| self.marks.mark(number)));
        }
        self.write(&message.content, &mut content);
        if self.conversation.ending == Ending::Inside && index + 1 == self.conversation.messages.len() {
            content += &self.marks.mark(self.conversation.all_documents());
        }
        let role = match message.role {
            Role::Developer if !self.knows_developers => Role::System,
            role => role,
        };
        let mut value = Map::new();
        value.insert("role".to_owned(), role.name().into());
        value.insert("content".to_owned(), content.into());
        value.extend(message.fields.clone());
        value.into()
    }

    /// Pieces stand on lines of their own; a document ends with a blank line itself.
    fn write(&self, pieces: &[Piece], content: &mut String) {
        for (index, piece) in pieces.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| pieces.get(before));
            if matches!(before, Some(Piece::Text(_))) {
                content.push('\n');
            }
            match piece {
                Piece::Text(text) => content.push_str(text),
                Piece::Document(number) => content.push_str(&self.marks.mark(*number)),
            }
        }
    }

    /// `parts` with the documents in their places, up to the place inside the last message if that is the end.
    fn read(&self, parts: Vec<Part>) -> Result<Vec<Part>, RenderError> {
        let documents = self.conversation.all_documents();
        let mut seen = vec![0_usize; documents];
        let mut read = Vec::new();
        for part in parts {
            let Part::Text(text) = part else {
                read.push(part);
                continue;
            };
            for stretch in self.marks.split(&text) {
                match stretch {
                    Stretch::Text(text) if self.marks.is_torn(text) => return Err(RenderError::Document(0)),
                    Stretch::Text(text) => push_text(&mut read, text),
                    Stretch::Mark(number) if number < documents => {
                        seen[number] += 1;
                        read.push(Part::Document(number));
                    }
                    Stretch::Mark(_) => return complete(&seen).map(|()| read),
                }
            }
        }
        complete(&seen)?;
        match self.conversation.ending {
            Ending::Inside => Err(RenderError::Inside),
            Ending::Answer | Ending::Message => Ok(read),
        }
    }
}

/// Whether every document was seen once.
fn complete(seen: &[usize]) -> Result<(), RenderError> {
    match seen.iter().position(|times| *times != 1) {
        Some(number) => Err(RenderError::Document(number)),
        None => Ok(()),
    }
}

/// Words alone are also names in a template's code.
fn is_spelling(special: &str) -> bool {
    special.chars().any(|c| !c.is_alphanumeric() && c != '_')
}
