//! A store, an engine and clients, made, used and dropped in an async context.

use std::time::SystemTime;

use tokio::runtime::{Builder, Runtime};
use tourbillon_durable::Engine;
use tourbillon_durable::store::{Postgres, Store};

use crate::cluster::Database;

fn runtimes() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    [Builder::new_current_thread().enable_all().build().unwrap(), multi.unwrap()]
}

#[test]
fn a_store_is_made_called_and_dropped_in_an_async_context() {
    let database = Database::new();
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut store = Postgres::connect(&database.address()).unwrap();
            let mut other = Store::connect(&store).unwrap();
            assert!(store.now().unwrap() <= other.now().unwrap());
        });
    }
}

#[test]
fn an_engine_is_made_used_and_dropped_in_an_async_context() {
    let database = Database::new();
    for runtime in runtimes() {
        let address = database.address();
        let run = async move {
            let store = Postgres::connect(&address).unwrap();
            let engine = Engine::builder().start(Box::new(store)).unwrap();
            let client = engine.client().unwrap();
            let mut worker = engine.worker("mail", 1);
            client.once("mail", SystemTime::now()).create().await.unwrap();
            let fire = worker.next().await.unwrap();
            fire.complete().await.unwrap();
            engine.stop().await;
        };
        // On a worker thread, where there are any.
        runtime.block_on(async { tokio::spawn(run).await.unwrap() });
    }
}
