//! Models of the hub: finds or downloads a repository's files.

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use std::path::{Path, PathBuf};

use crate::{HubOptions, LoadError, LoadOptions, ModelSource, Progress, ProgressFn};

/// Files of a safetensors repository that a model can do without.
const OPTIONAL: [&str; 3] = [
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
];
const REQUIRED: [&str; 2] = ["config.json", "tokenizer.json"];
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Brings a repository's model here and says where it is. What the cache holds completely is used as it is,
/// without asking the hub.
pub(crate) fn fetch(id: &str, file: Option<&str>, options: &LoadOptions) -> Result<ModelSource, LoadError> {
    let hub = Hub::new(id, &options.hub, options.progress.as_ref())?;
    match file {
        Some(file) => hub.get(file).map(ModelSource::Gguf),
        None => match hub.cached_folder() {
            Some(folder) => Ok(ModelSource::Folder(folder)),
            None => hub.download_any(),
        },
    }
}

struct Hub<'a> {
    id: &'a str,
    cache_path: PathBuf,
    cache: CacheRepo,
    repository: ApiRepo,
    progress: Option<&'a ProgressFn>,
}

impl<'a> Hub<'a> {
    fn new(id: &'a str, options: &HubOptions, progress: Option<&'a ProgressFn>) -> Result<Self, LoadError> {
        let cache = options.cache.clone().map_or_else(Cache::from_env, Cache::new);
        let cache_path = cache.path().clone();
        let api = api(options, cache.clone());
        let api = api.map_err(|source| hub_error(id, "the repository", &cache_path, source))?;
        let repo = || Repo::new(id.to_owned(), RepoType::Model);
        Ok(Self {
            id,
            cache: cache.repo(repo()),
            repository: api.repo(repo()),
            cache_path,
            progress,
        })
    }

    /// The folder of a safetensors model, if the cache holds all of it.
    fn cached_folder(&self) -> Option<PathBuf> {
        let config = self.cache.get(REQUIRED[0])?;
        self.cache.get(REQUIRED[1])?;
        let complete = match self.cache.get(INDEX) {
            Some(index) => shards(&index)
                .ok()?
                .iter()
                .all(|shard| self.cache.get(shard).is_some()),
            None => self.cache.get(WEIGHTS).is_some(),
        };
        complete.then(|| config.parent().map(Path::to_owned)).flatten()
    }

    /// Lists the repository and downloads safetensors, or else its only GGUF file.
    fn download_any(&self) -> Result<ModelSource, LoadError> {
        let info = self
            .repository
            .info()
            .map_err(|source| self.error("the list of files", source))?;
        let files: Vec<_> = info
            .siblings
            .into_iter()
            .map(|sibling| sibling.rfilename)
            .collect();
        let has = |name: &str| files.iter().any(|file| file == name);
        if has(REQUIRED[0]) && (has(WEIGHTS) || has(INDEX)) {
            return self.download_folder(&has).map(ModelSource::Folder);
        }
        let ggufs: Vec<_> = files
            .iter()
            .filter(|file| file.ends_with(".gguf"))
            .map(String::as_str)
            .collect();
        match ggufs[..] {
            [only] => self.get(only).map(ModelSource::Gguf),
            [] => self.refuse("it holds neither config.json with safetensors nor a GGUF file".to_owned()),
            _ => self.refuse(format!(
                "it holds several GGUF files, name one as {}:FILE: {}",
                self.id,
                ggufs.join(", ")
            )),
        }
    }

    fn download_folder(&self, has: &dyn Fn(&str) -> bool) -> Result<PathBuf, LoadError> {
        for file in REQUIRED {
            self.get(file)?;
        }
        for file in OPTIONAL.into_iter().filter(|file| has(file)) {
            self.get(file)?;
        }
        let mut weights = vec![WEIGHTS.to_owned()];
        if has(INDEX) {
            weights = shards(&self.get(INDEX)?)?;
        }
        for file in weights {
            self.get(&file)?;
        }
        let config = self.get(REQUIRED[0])?;
        config
            .parent()
            .map(Path::to_owned)
            .ok_or_else(|| LoadError::Repository {
                id: self.id.to_owned(),
                problem: "its cached files are in no folder".to_owned(),
            })
    }

    fn get(&self, file: &str) -> Result<PathBuf, LoadError> {
        if let Some(path) = self.cache.get(file) {
            return Ok(path);
        }
        let report = Report {
            progress: self.progress,
            file: file.to_owned(),
            done: 0,
            total: 0,
        };
        self.repository
            .download_with_progress(file, report)
            .map_err(|source| self.error(file, source))
    }

    fn error(&self, file: &str, source: ApiError) -> LoadError {
        hub_error(self.id, file, &self.cache_path, source)
    }

    fn refuse<T>(&self, problem: String) -> Result<T, LoadError> {
        Err(LoadError::Repository {
            id: self.id.to_owned(),
            problem,
        })
    }
}

fn api(options: &HubOptions, cache: Cache) -> Result<Api, ApiError> {
    let mut builder = ApiBuilder::from_env()
        .with_cache_dir(cache.path().clone())
        .with_progress(false);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if options.token.is_some() {
        builder = builder.with_token(options.token.clone());
    }
    builder.build()
}

fn hub_error(id: &str, file: &str, cache: &Path, source: ApiError) -> LoadError {
    let (id, file, cache) = (id.to_owned(), file.to_owned(), cache.to_owned());
    LoadError::Hub {
        id,
        file,
        cache,
        source: Box::new(source),
    }
}

/// Names of the weight files that an index lists.
fn shards(index: &Path) -> Result<Vec<String>, LoadError> {
    crate::folder::shard_names(index)
}

/// Passes a download's progress on.
struct Report<'a> {
    progress: Option<&'a ProgressFn>,
    file: String,
    done: u64,
    total: u64,
}

impl Report<'_> {
    fn tell(&self) {
        if let Some(told) = self.progress {
            told(Progress::Download {
                file: self.file.clone(),
                done: self.done,
                total: self.total,
            });
        }
    }
}

impl hf_hub::api::Progress for Report<'_> {
    fn init(&mut self, size: usize, _: &str) {
        self.total = size as u64;
        self.tell();
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        self.tell();
    }

    fn finish(&mut self) {
        self.done = self.total;
        self.tell();
    }
}
