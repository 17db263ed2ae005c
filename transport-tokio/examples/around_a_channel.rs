//! Retries, budget and breaker around what a service already has: here a tonic `Channel`, to a
//! server that fails twice.

#![allow(clippy::print_stdout, reason = "it prints what happened")]

use steadfast_tests::carts::{AddItemRequest, cart_service_client::CartServiceClient};
use steadfast_tests::{DESCRIPTORS, Script, Server, unavailable};
use steadfast_tokio::{MethodTable, Settings, around};
use tonic::transport::Endpoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let script = Script::new();
    let server = Server::start(&script);
    script.then([unavailable(None), unavailable(None)]);

    let channel = Endpoint::from_shared(format!("http://{}", server.address()))?.connect_lazy();
    let settings = Settings {
        addr: server.address().to_string(),
        methods: MethodTable::from_descriptor_set(DESCRIPTORS)?,
        ..Settings::default()
    };
    // The one line: `CartServiceClient::new(channel)` before.
    let mut carts = CartServiceClient::new(around(channel, settings)?);

    let answer = carts.add_item(AddItemRequest::default()).await?;
    println!("{:?}", answer.into_inner());
    println!("after {} attempts", script.attempts());
    Ok(())
}
