//! `medley serve`: the listener first, then the model, until a signal.

use std::{io::ErrorKind, net::SocketAddr, sync::Arc};

use anyhow::{Context, Error, Result};
use medley_generate::Generate;
use medley_server::{AppState, Engine, Patience, Quality, Readiness, ServerConfig as Settings, router};
use medley_shadow::{Rate, Shadow};
use tokio::net::TcpListener;

use crate::{
    banner::banner,
    config::{LogFormat, ModelConfig, ServerConfig},
    model::{self, Choice, Running, Serving},
    quality, say, signals,
};

/// Serves until a signal and the end of running requests. Health checks are answered while the model loads; a
/// signal ends loading too.
pub async fn serve(model: ModelConfig, server: ServerConfig) -> Result<()> {
    let choice = model::choose(&model)?;
    let listener = bind(&server).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    tracing::info!(%address, api_keys = server.http.api_keys.len(), "listening");
    let readiness = Readiness::loading();
    let settings = settings(&choice, &model, &server);
    let name = settings.served_names.first().cloned().unwrap_or_default();
    let state = AppState::new(settings, readiness.clone());
    let router = router(state.clone());
    let patience = Patience {
        head: server.http.header_timeout,
        shutdown: server.shutdown_timeout.0,
    };
    let mut serving = tokio::spawn(medley_server::serve(
        listener,
        router,
        readiness.clone(),
        patience,
        signals::terminated()?,
    ));
    let format = model.log_format;
    let loading = load(choice, &model, &server, &name);
    tokio::select! {
        ended = &mut serving => return ended.context("the listener failed"),
        loaded = loading => {
            let (running, quality) = loaded?;
            let generate = shadowed(running.engine, server.shadow_rate, &state)?;
            let Running { composer, chat, .. } = running;
            readiness.ready(Engine { generate, composer, chat, quality });
            announce(&name, address, format);
        }
    }
    serving.await.context("the listener failed")
}

/// Loads the model and finds out how much it has to recompute.
async fn load(
    choice: Choice,
    model: &ModelConfig,
    server: &ServerConfig,
    name: &str,
) -> Result<(Running, Quality)> {
    let serving = Serving {
        separator: server.separator.clone(),
        chat: server.chat.clone(),
        shadow_rate: server.shadow_rate,
    };
    let config = model.clone();
    let loading = tokio::task::spawn_blocking(move || model::start(&choice, &config, &serving));
    let running = loading.await.context("loading was interrupted")??;
    let quality = quality::of_server(model, server, name, &running).await?;
    Ok((running, quality))
}

/// The engine with its shadow checks, if there are any.
fn shadowed(engine: Arc<dyn Generate>, rate: Rate, state: &AppState) -> Result<Arc<dyn Generate>> {
    if rate == Rate::NONE {
        return Ok(engine);
    }
    let shadow = Shadow::start(engine, rate, state.shadow_recorder());
    Ok(Arc::new(shadow.context("can't start the shadow checks")?))
}

async fn bind(server: &ServerConfig) -> Result<TcpListener> {
    let (host, port) = (server.host.as_str(), server.port);
    let bound = TcpListener::bind((host, port)).await;
    bound.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                ": another process has it; `--port N` takes another one, `--port 0` a free one"
            }
            _ => "",
        };
        Error::new(error).context(format!("can't listen on {host} port {port}{hint}"))
    })
}

fn settings(choice: &Choice, model: &ModelConfig, server: &ServerConfig) -> Settings {
    let mut settings = Settings::new(choice.name());
    if !server.names.is_empty() {
        settings.served_names = server.names.clone();
    }
    settings.blend_defaults = model.blend.options;
    settings.auto_ratio = model.blend.auto_ratio;
    let http = &server.http;
    settings.api_keys = http.api_keys.clone();
    settings.cors = http.cors.clone();
    settings.body_limit = http.body_limit;
    settings.body_timeout = http.body_timeout;
    settings.request_timeout = http.request_timeout;
    settings
}

/// For people the text with an example; for machines a line of the log.
fn announce(name: &str, address: SocketAddr, format: LogFormat) {
    tracing::info!(model = name, %address, "ready");
    if format == LogFormat::Text {
        say::note(format_args!("{}", banner(name, address)));
    }
}
