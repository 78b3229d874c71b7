//! The port of the server: submit a prepared request, receive a stream of events.
