//! A leader that is stopped, and wakes when another one leads.

use super::super::*;

#[tokio::test]
async fn a_leader_that_was_stopped_and_wakes_is_fenced_stands_by_and_can_lead_again() {
    let mut tail = Tail::on_shared_servers("fenced").await;
    tail.lead().await;
    let mut second = standby(&tail, "second").await;
    tail.insert(1..=50);
    tail.until_complete().await;
    tail.tailer().pause().unwrap();
    until_leading(&second).await;
    tail.insert(51..=100);
    tail.until_complete().await;
    tail.tailer().resume().unwrap();
    until(async || log(&tail.platform.cdc_tailer), |text| text.contains("fenced: another")).await;
    until_standby(tail.tailer()).await;
    tail.insert(101..=150);
    second.kill().unwrap();
    until_leading(tail.tailer()).await;
    tail.insert(151..=200);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

#[tokio::test]
async fn a_leader_stopped_for_seconds_under_load_and_continued_breaks_no_promise() {
    stopped_under_load(Duration::from_secs(3), 4).await;
}

#[tokio::test]
#[ignore = "three minutes of silence; ./dev soak a_leader_stopped_for_three_minutes"]
async fn a_leader_stopped_for_three_minutes_under_load_and_continued_breaks_no_promise() {
    stopped_under_load(Duration::from_secs(180), 40).await;
}
