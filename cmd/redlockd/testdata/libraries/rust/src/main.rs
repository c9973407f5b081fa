//! Drives rslock by lines on standard input, see ../README.md.

mod shared;

use std::time::Duration;

use rslock::{Lock, LockError, LockManager};
use tokio::io::{AsyncBufReadExt, BufReader};

const LOCKFILE: &str = include_str!("../Cargo.lock");

struct Program {
    once: LockManager,
    patient: LockManager,
    lock: Option<Lock>,
}

impl Program {
    fn new(uri: &str) -> Self {
        let mut once = LockManager::new(vec![uri]);
        once.set_retry(1, Duration::from_millis(200));
        let mut patient = LockManager::new(vec![uri]);
        patient.set_retry(100, Duration::from_millis(200));
        Self { once, patient, lock: None }
    }

    async fn step(&mut self, line: &str) -> Result<&'static str, LockError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["acquire", name, ttl] => self.acquire(self.patient.clone(), name, ttl).await,
            ["try", name, ttl] => self.acquire(self.once.clone(), name, ttl).await,
            ["extend", ttl] => {
                let extended = self.once.extend(self.held(), milliseconds(ttl)).await;
                self.keep(extended)
            }
            ["inspect"] => match self.once.is_freed(self.held()).await {
                Ok(false) => Ok("held"),
                Ok(true) | Err(LockError::RedisKeyMismatch | LockError::RedisKeyNotFound) => Ok("lost"),
                Err(err) => Err(err),
            },
            ["release"] => {
                self.once.unlock(self.held()).await;
                Ok("silent")
            }
            // rslock keeps its connection to itself, and renews it after a command of a lock has failed.
            ["ping"] => {
                for manager in [&self.once, &self.patient] {
                    let lock = manager.lock("ping", Duration::from_secs(1)).await?;
                    manager.unlock(&lock).await;
                }
                Ok("ok")
            }
            _ => panic!("no such command: {line}"),
        }
    }

    async fn acquire(&mut self, manager: LockManager, name: &str, ttl: &str) -> Result<&'static str, LockError> {
        let lock = manager.lock(name, milliseconds(ttl)).await;
        self.keep(lock)
    }

    fn keep(&mut self, lock: Result<Lock, LockError>) -> Result<&'static str, LockError> {
        match lock {
            Ok(lock) => {
                self.lock = Some(lock);
                Ok("ok")
            }
            Err(LockError::Unavailable) => Ok("refused"),
            Err(err) => Err(err),
        }
    }

    fn held(&self) -> &Lock {
        self.lock.as_ref().expect("a lock was taken before")
    }
}

fn milliseconds(word: &str) -> Duration {
    Duration::from_millis(word.parse().expect("a number of milliseconds"))
}

fn version(package: &str) -> &'static str {
    let (_, rest) = LOCKFILE.split_once(&format!("name = \"{package}\"\nversion = \"")).expect("a locked package");
    rest.split_once('"').expect("a version").0
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, host, port, callers, connections] = &args[..] {
        let numbers = [callers, connections].map(|n| n.parse().expect("a number"));
        return shared::play(&format!("redis://{host}:{port}/"), numbers[0], numbers[1]).await.expect("the callers are served");
    }
    let mut program = Program::new(&format!("redis://{}:{}/", args[1], args[2]));
    println!("ready rslock {}, redis-rs {}", version("rslock"), version("redis"));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match program.step(&line).await {
            Ok(answer) => println!("{answer}"),
            Err(err) => println!("error {}", err.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
}
