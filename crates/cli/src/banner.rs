//! What is said when the server is ready: where it is and a request to try.

use std::net::SocketAddr;

/// The request of the example: documents and a question about them.
const EXAMPLE: &str = r#"{
  "instructions": "Facts about Norvik.",
  "documents": [
    {"title": "Harbour", "text": "Ada Lindholm built the lighthouse of Norvik. It was finished in 1887."},
    {"title": "Market", "text": "The fish market of Norvik opens on Tuesdays and Fridays."}
  ],
  "prompt": "In short: the fish market of Norvik opens on",
  "max_tokens": 12, "temperature": 0, "stop": ["\n"]
}"#;

/// The text, for a model served under `name` at `address`.
pub fn banner(name: &str, address: SocketAddr) -> String {
    let url = url(address);
    format!(
        "\nMedley serves {name} at {url}/v1; Ctrl-C stops it. Try it, twice: the second time the documents are reused.\n\n\
         curl -s {url}/v1/completions -H 'content-type: application/json' -d '{EXAMPLE}'\n"
    )
}

/// The address as a client on this machine writes it.
fn url(address: SocketAddr) -> String {
    let local = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], v6.port()))
        }
        address => address,
    };
    format!("http://{local}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_json_that_a_shell_takes_in_quotes() {
        let request: serde_json::Value = serde_json::from_str(EXAMPLE).expect("JSON");
        assert_eq!(request["documents"].as_array().map(Vec::len), Some(2));
        assert!(!EXAMPLE.contains('\''));
    }

    #[test]
    fn addresses_are_those_that_a_client_can_reach() {
        let shown = |address: &str| url(address.parse().expect("an address"));
        assert_eq!(shown("0.0.0.0:80"), "http://127.0.0.1:80");
        assert_eq!(shown("[::]:8080"), "http://[::1]:8080");
        assert_eq!(shown("10.1.2.3:8080"), "http://10.1.2.3:8080");
    }
}
