//! Tests of several features at once.

use model::claim::settings::mixed::{self as configurations, SMALL};

use crate::searched::assert_bounds_hold;

fn holds(name: &str) {
    assert_bounds_hold(name, SMALL);
}

holds! {
    queued_held_a_lapse_two_users_redis_forgets_a_crash_a_rebuild_hold: "queued, held: a lapse, two users; Redis forgets, a crash, a rebuild"
    queued_held_a_lapse_the_number_claimed_again_the_same_key_again_a_rebuild_hold: "queued, held: a lapse, the number claimed again, the same key again; a rebuild"
    queued_held_a_lapse_a_ban_a_lift_redis_forgets_a_rebuild_hold: "queued, held: a lapse, a ban, a lift; Redis forgets, a rebuild"
    queued_held_a_payment_a_cancellation_hidden_commits_two_landers_a_rebuild_hold: "queued, held: a payment, a cancellation, hidden commits; two landers, a rebuild"
    queued_held_a_cut_and_a_top_up_a_lapse_hidden_commits_a_rebuild_hold: "queued, held: a cut and a top-up, a lapse, hidden commits; a rebuild"
    spill_held_a_lapse_the_same_key_again_redis_forgets_a_crash_a_rebuild_hold: "spill, held: a lapse, the same key again; Redis forgets, a crash, a rebuild"
    after_the_gate_held_a_lapse_redis_goes_back_in_time_a_rebuild_hold: "after the gate, held: a lapse; Redis goes back in time, a rebuild"
    held_sold_out_a_lapse_two_users_an_api_a_rebuild_hold: "held, sold out: a lapse, two users, an api; a rebuild"
    held_sold_out_a_lapse_the_same_key_again_an_api_redis_forgets_a_rebuild_hold: "held, sold out: a lapse, the same key again, an api; Redis forgets, a rebuild"
    queued_sold_out_two_users_an_api_a_rebuild_hold: "queued, sold out: two users, an api; a rebuild"
    queued_sold_out_a_top_up_a_users_key_twice_an_api_a_rebuild_hold: "queued, sold out: a top-up, a user's key twice, an api; a rebuild"
    queued_held_sold_out_a_lapse_two_users_an_api_hold: "queued, held, sold out: a lapse, two users, an api"
}
