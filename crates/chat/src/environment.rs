//! What templates of Hugging Face expect around them: Jinja as `transformers` sets it up.

use minijinja::{
    Environment, Error, ErrorKind,
    syntax::SyntaxConfig,
    value::{Kwargs, Serde},
};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::json;

/// An environment without templates.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    if let Ok(syntax) = syntax.build() {
        environment.set_syntax(syntax);
    }
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment
}

/// `tojson(indent=…)`. Python's other options are taken for what they are by default.
fn to_json(value: Serde<serde_json::Value>, options: Kwargs) -> Result<String, Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    Ok(json::python(&value, indent))
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(format: String) -> Result<String, Error> {
    let now = jiff::ZonedDateTime::now();
    jiff::fmt::strtime::format(&format, &now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}
