//! Workers that are elsewhere: what a hub hands to the workers connected to it, and what they answer.
//!
//! [`Workers`] is an executor of the hub. Each worker has a stream of work items ([`Workers::connect`]) and answers by
//! calls ([`Workers::complete_turn`] and the like) that name a token. The transport is somebody else's: the server puts
//! gRPC around this, the simulator breaks it.
//!
//! - `state` knows streams, their room and the tokens that are out;
//! - `flight` is the way of one item: to a worker, to another one when the first is gone, and back with an answer;
//! - `executor` makes items of turns and activities, and answers of what comes back;
//! - `answers` takes the workers' calls;
//! - `custody` knows tasks by their ids, also those that another server has handed out; `seal` makes their tokens;
//! - `adoptions` asks the session to hold such tasks, `trial` has a worker run one item alone;
//! - `stream` is what one worker sees, `line` what is on its way there.
//!
//! Nothing here knows a runtime: time, chance and concurrency come through `Env`.

mod adoptions;
mod answers;
mod custody;
mod debts;
mod executor;
mod flight;
mod line;
mod options;
mod seal;
mod state;
mod stream;
mod trial;
mod workers;

pub use answers::Brought;
pub use options::{Options, Worker};
pub use stream::WorkerStream;
pub use workers::{Figures, Workers};
