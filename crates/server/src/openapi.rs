//! The description of this interface, collected from the handlers.

use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, Response, ResponseBuilder,
    path::Operation,
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    tag::TagBuilder,
};

use crate::middleware::OPEN;

/// Name of the security scheme.
const KEY: &str = "api_key";

/// The description as it is served and as `openapi/openapi.json` holds it.
pub(crate) fn encode(openapi: OpenApi) -> serde_json::Result<String> {
    plain_paths(keyed(openapi))
        .to_pretty_json()
        .map(|json| json + "\n")
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
        ("tokens", "Texts to tokens and back"),
        ("models", "What is served"),
        ("operations", "For those who run the server"),
    ];
    let tags = tags.map(|(name, text)| TagBuilder::new().name(name).description(Some(text)).build());
    OpenApiBuilder::new().info(info).tags(Some(tags)).build()
}

/// Says of every path that is not open to everybody that it may want a key, and what is answered without one.
fn keyed(mut openapi: OpenApi) -> OpenApi {
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let scheme = scheme.description(Some("One of the server's API keys, if it was started with some"));
    let components = openapi.components.get_or_insert_with(Components::new);
    components.add_security_scheme(KEY, SecurityScheme::Http(scheme.build()));
    for (path, item) in &mut openapi.paths.paths {
        if OPEN.contains(&path.as_str()) {
            continue;
        }
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        operations.into_iter().flatten().for_each(want_key);
    }
    openapi
}

fn want_key(operation: &mut Operation) {
    let none = SecurityRequirement::default();
    let one = SecurityRequirement::new(KEY, std::iter::empty::<String>());
    operation.security = Some(vec![none, one]);
    let responses = &mut operation.responses.responses;
    responses.insert("401".to_owned(), unauthorized().into());
}

fn unauthorized() -> Response {
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorResponse")));
    ResponseBuilder::new()
        .description("`invalid_api_key`: the server wants a key and there was none or a wrong one")
        .content("application/json", error.build())
        .build()
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
