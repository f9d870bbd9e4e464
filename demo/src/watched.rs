//! `--watch`: somebody looks at the sale in the console.

use std::io;

use tokio::task::spawn_blocking;

use crate::{progress::print, stage::Stage};

/// Says where the sale can be seen, and waits until somebody looks.
pub(crate) async fn before_the_sale(stage: &Stage) {
    print(format_args!("\nThe console  {}", stage.console_url()));
    print(format_args!("Sign in with {}", stage.console_key()));
    entered("Then press Enter: 5,000 users claim at once.").await;
}

/// Waits until nobody looks any more.
pub(crate) async fn before_the_end() {
    entered("The console is still there. Press Enter: the servers stop.").await;
}

/// Waits for Enter. Where there is no terminal, nothing is waited for.
async fn entered(what: &str) {
    print(format_args!("{what}\n"));
    let read = spawn_blocking(|| io::stdin().read_line(&mut String::new()));
    // Neither the end of the input nor a failure of it stops the demo.
    drop(read.await);
}
