//! Which of the requests that come together are choices of one prompt.

use std::sync::Arc;

use medley_generate::{Priority, Request};
use medley_kv::BlendMode;

use crate::trunk::Group;

/// The group of each request that shares its prefill with another one.
pub(crate) fn groups(requests: &[Request]) -> Vec<Option<Arc<Group>>> {
    let first = |index: usize| {
        let request = &requests[index];
        let mut before = requests[..index].iter();
        before
            .position(|other| is_sibling(request, other))
            .unwrap_or(index)
    };
    let firsts: Vec<_> = (0..requests.len()).map(first).collect();
    let mut groups: Vec<Option<Arc<Group>>> = vec![None; requests.len()];
    for (index, &first) in firsts.iter().enumerate().filter(|(index, first)| index != *first) {
        let group = groups[first].get_or_insert_default().clone();
        groups[index] = Some(group);
    }
    groups
}

/// Whether two requests run one prompt in one way. Without reuse every request runs its own, and so does one whose prompt
/// is told token by token.
fn is_sibling(a: &Request, b: &Request) -> bool {
    let may_share = |request: &Request| {
        request.blend.mode != BlendMode::Off
            && request.priority == Priority::Normal
            && request.prompt_logprobs.is_none()
            && request.capture.forced.is_none()
    };
    let what = |request: &Request| (request.blend, request.max_tokens, request.precedence);
    may_share(a) && may_share(b) && what(a) == what(b) && a.cache_salt == b.cache_salt && a.prompt == b.prompt
}
