//! A process whose part fails exits with a non-zero code. There is one test, since [`runtime::run`] sets up global
//! logging and metrics once per process.

use std::process::ExitCode;

use clap::Parser;
use runtime::ProcessConfig;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    process: ProcessConfig,
}

#[tokio::test]
async fn a_part_that_dies_takes_its_process_down_after_the_others_have_drained() {
    let flags = Flags::try_parse_from(["test", "--log-filter", "off"]).unwrap();
    let (drained, has_drained) = tokio::sync::oneshot::channel();
    let code = runtime::run("test", &flags.process, |context| async move {
        context.spawn("doomed", async { anyhow::bail!("its server is gone for good") });
        context.stopping().await;
        drained.send(()).unwrap();
        Ok(())
    })
    .await;
    assert_eq!(code, ExitCode::FAILURE);
    has_drained.await.unwrap();
}
