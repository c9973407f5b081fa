//! The callers hand one lock on, over so many connections, see ../README.md.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Instant;

use redis::aio::MultiplexedConnection;

static HERE: AtomicI64 = AtomicI64::new(0);
static TOGETHER: AtomicI64 = AtomicI64::new(0);

async fn call(mut connection: MultiplexedConnection, token: String) -> redis::RedisResult<i64> {
    let lock: Option<(String, i64)> =
        redis::cmd("LOCK").arg("shared").arg("30s").arg("TOKEN").arg(&token).arg("WAIT").arg("1m").query_async(&mut connection).await?;
    if lock.is_none() {
        return Ok(0);
    }
    TOGETHER.fetch_max(HERE.fetch_add(1, SeqCst) + 1, SeqCst);
    tokio::task::yield_now().await;
    HERE.fetch_sub(1, SeqCst);
    redis::cmd("UNLOCK").arg("shared").arg(&token).query_async(&mut connection).await
}

pub async fn play(uri: &str, callers: usize, connections: usize) -> redis::RedisResult<()> {
    let client = redis::Client::open(uri)?;
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(std::time::Duration::from_secs(90)));
    let mut all = Vec::new();
    for _ in 0..connections {
        all.push(client.get_multiplexed_async_connection_with_config(&patient).await?);
    }
    let began = Instant::now();
    let calls: Vec<_> = (0..callers).map(|i| tokio::spawn(call(all[i % connections].clone(), format!("token-{i}")))).collect();
    let mut done = 0;
    for call in calls {
        done += call.await.expect("a caller ends")?;
    }
    println!("{done} callers, {} at once", TOGETHER.load(SeqCst));
    println!("{}", began.elapsed().as_millis());
    Ok(())
}
