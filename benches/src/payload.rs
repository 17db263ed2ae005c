//! What a call carries: an item of a given size.

use crate::carts::AddItemRequest;
use bytes::Bytes;
use prost::Message as _;

/// One size of message.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    /// The item's bytes.
    pub(crate) item: Bytes,
    /// The whole message as it stands on the wire, its five-byte prefix included, for the
    /// client that has no codec.
    pub(crate) framed: Bytes,
}

impl Payload {
    pub(crate) fn new(size: usize) -> Self {
        let item = Bytes::from(vec![0x5a; size]);
        let message = request(&item).encode_to_vec();
        let length = u32::try_from(message.len()).expect("a message is small");
        let mut framed = vec![0];
        framed.extend(length.to_be_bytes());
        framed.extend(message);
        Self {
            item,
            framed: framed.into(),
        }
    }

    /// The message for a generated client, made anew for each call as an application does.
    pub(crate) fn request(&self) -> AddItemRequest {
        request(&self.item)
    }
}

fn request(item: &Bytes) -> AddItemRequest {
    AddItemRequest {
        cart: String::new(),
        item: item.to_vec(),
    }
}
