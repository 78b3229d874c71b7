//! The description of this interface, collected from the handlers.

use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, tag::TagBuilder};

/// The description as it is served and as `openapi/openapi.json` holds it.
pub(crate) fn encode(openapi: OpenApi) -> serde_json::Result<String> {
    plain_paths(openapi).to_pretty_json().map(|json| json + "\n")
}

/// What the handlers don't say.
pub(crate) fn frame() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Medley")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "OpenAI-compatible generation that reuses the KV of documents at any position.",
        ));
    let tags = [
        ("generation", "Text from prompts and documents"),
        ("models", "What is served"),
        ("operations", "For those who run the server"),
    ];
    let tags = tags.map(|(name, text)| TagBuilder::new().name(name).description(Some(text)).build());
    OpenApiBuilder::new().info(info).tags(Some(tags)).build()
}

/// OpenAPI has no wildcards: `{*id}` of a route is `{id}` in the description.
fn plain_paths(mut openapi: OpenApi) -> OpenApi {
    let paths = std::mem::take(&mut openapi.paths.paths);
    openapi.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    openapi
}
