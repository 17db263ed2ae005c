//! The README's example: one call, and what became of it.

#![allow(clippy::print_stdout, reason = "it prints its answer")]

use std::time::Duration;

// Your own generated code goes here.
use steadfast_tests::carts::{AddItemRequest, cart_service_client::CartServiceClient};
use steadfast_tokio::{CallReport, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = steadfast_tokio::connect(Settings {
        addr: "127.0.0.1:50051".to_owned(),
        timeout: Duration::from_secs(2),
        ..Settings::default()
    })?;
    let mut carts = CartServiceClient::new(client);
    match carts.add_item(AddItemRequest::default()).await {
        Ok(response) => println!("{:?}", response.into_inner()),
        Err(status) => match CallReport::of(&status) {
            Some(report) => println!("{}\n{report}", status.message()),
            None => println!("{status}"),
        },
    }
    Ok(())
}
