//! What holds for every call, whichever it is: who may make it, for which hub, and what becomes of nonsense.

use prost::bytes::{Buf, BufMut};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

use super::described;
use crate::support::Running;

/// Bytes as they are.
#[derive(Default, Clone)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// How a call with those bytes and headers ends.
async fn code(server: &Running, method: &str, bytes: Vec<u8>, headers: &[(&'static str, &str)]) -> Code {
    let mut grpc = Grpc::new(server.channel().await);
    grpc.ready().await.unwrap();
    let mut request = Request::new(bytes);
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let path = format!("/{}/{method}", dauer_rpc::SERVICE_NAME).parse().unwrap();
    match grpc.server_streaming(request, path, Raw).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

fn token_file(name: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, "orders 0123456789abcdef\n* fedcba9876543210\n").unwrap();
    path
}

/// behaviour-1: the same codes from every call.
#[tokio::test]
async fn who_may_not_come_in_is_told_so_by_every_call() {
    let orders = dauer_core::HubName::new("orders").unwrap();
    let server = Running::with(|options| {
        options.tokens = Some(token_file("every-tokens"));
        options.hubs = Some(vec![orders, dauer_core::HubName::default()]);
    })
    .await;
    let [good, all, bad] = ["Bearer 0123456789abcdef", "Bearer fedcba9876543210", "Bearer 0000000000000000"];
    for method in described() {
        let code = async |headers: &[(&'static str, &str)]| code(&server, &method, Vec::new(), headers).await;
        assert_eq!(code(&[]).await, Code::Unauthenticated, "{method}");
        assert_eq!(code(&[("authorization", bad)]).await, Code::Unauthenticated, "{method}");
        let wrong = code(&[("authorization", good), ("taskhub", "default")]).await;
        assert_eq!(wrong, Code::PermissionDenied, "{method}");
        assert_eq!(
            code(&[("authorization", all), ("taskhub", "a b")]).await,
            Code::InvalidArgument,
            "{method}"
        );
        assert_eq!(code(&[("authorization", all), ("taskhub", "absent")]).await, Code::NotFound, "{method}");
        let let_in = code(&[("authorization", good), ("taskhub", "orders")]).await;
        let refusals = [Code::Unauthenticated, Code::PermissionDenied];
        assert!(!refusals.contains(&let_in), "{method}: {let_in:?}");
    }
    server.stop().await.unwrap();
}

/// A message that is cut off, or too large, is its sender's mistake, in the codes that SDKs expect.
#[tokio::test]
async fn nonsense_is_refused_by_every_call() {
    let server = Running::with(|options| {
        (options.limits.message_bytes, options.limits.answer_bytes) = (1_000, 1_000);
    })
    .await;
    for method in described() {
        // A string of five bytes of which none comes.
        assert_eq!(code(&server, &method, vec![0x0a, 5], &[]).await, Code::InvalidArgument, "{method}");
        assert_eq!(code(&server, &method, vec![0; 1_001], &[]).await, Code::ResourceExhausted, "{method}");
    }
    // The id of an instance that is no UTF-8.
    assert_eq!(code(&server, "StartInstance", vec![0x0a, 1, 0xff], &[]).await, Code::InvalidArgument);
    assert_eq!(code(&server, "NoSuchCall", Vec::new(), &[]).await, Code::Unimplemented);
    server.stop().await.unwrap();
}
