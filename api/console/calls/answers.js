// The answers that the console reads, as the api describes them. A test writes this file: see README.md beside `calls`.

/** @typedef {'gate'|'replica'|'topic'} AcceptAfter */

/**
 * @typedef {object} AnswerCounts Answers to claims. Durations are upper bounds of buckets (1, 2, 5, 10, 20, 50 … 15,000 ms).
 * @property {number} accepted Queued claims that were answered 202, with repeated answers. They land, or are rejected, later.
 * @property {number} landed Claims that landed, without repeated answers.
 * @property {number|null} landed_p99_ms As `p99_ms`, of the claims that landed.
 * @property {number|null} p50_ms Half of all answers took at most this long. Null: there are none.
 * @property {number|null} p99_ms 99 of 100 answers took at most this long.
 * @property {Object<string, number>} refused Refusals by code (docs/errors.md).
 * @property {number} replayed Repeated answers of landed claims.
 * @property {number} requests All answers.
 * @property {Object<string, number>} unknown Answers that decided nothing (503), by code: the claim may have landed, and the same key finds out.
 */

/**
 * @typedef {object} ApiKey A key, without its secret.
 * @property {Instant} created_at
 * @property {Instant|null} expires_at
 * @property {Id} id
 * @property {Instant|null} last_used_at
 * @property {Id} merchant_id
 * @property {string} name
 * @property {Instant|null} revoked_at
 * @property {Scope[]} scopes
 */

/**
 * @typedef {object} ApiKeys A list of keys.
 * @property {ApiKey[]} items
 * @property {Id[]} [unreadable] Ids of keys that cannot be read, because a value of theirs is damaged: none of them is accepted. Absent: there is none.
 */

/**
 * @typedef {object} ChangedTemplate A template after a change of its state.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {number} hold_ms Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
 * @property {number} max_per_claim
 * @property {number} per_user_limit
 * @property {AcceptAfter} accept_after
 * @property {ClaimMode} claim_mode
 * @property {Id} id
 * @property {number} lapses_allowed Lapsed coupons after which a user is refused further claims; 0: never.
 * @property {string} name
 * @property {ReturnedStock} returned_stock What becomes of a coupon that lapsed or was cancelled.
 * @property {boolean} self_redeem Whether users may redeem its coupons with their own token; otherwise only the shop does, with a key.
 * @property {boolean} stackable Whether one order may redeem its coupons together with others.
 * @property {TemplateState} state
 * @property {number} version
 * @property {string[]} [warnings] What is accepted but probably not meant, for people. Present if there is something.
 * @property {boolean} [gate_informed] Whether the gate knows of a pause or an end, which holds for queued claims from then on. If not, it will by itself. Absent for templates whose claims are not queued.
 */

/**
 * @typedef {object} Claim A landed claim. It consists of values that never change: a replay has the same bytes.
 * @property {Instant} claimed_at
 * @property {ClaimedCoupon[]} coupons
 * @property {Instant} [held_until] When its coupons lapse unless they are confirmed, as issued. Absent: they are not held.
 * @property {Id} id
 * @property {number} [pay_within_ms] What was left of the hold when the claim was made, in milliseconds. Absent: the coupons are not held.
 * @property {number} quantity
 * @property {string} [status] `held`: its coupons lapse unless the shop confirms them. Absent: they are confirmed.
 * @property {Id} template_id
 * @property {Id} user_id
 * @property {Instant} valid_from
 * @property {Instant} valid_until
 */

/**
 * @typedef {object} ClaimHop One hop of a claim's way.
 * @property {string} [binlog_file] File of the binlog that has the landing.
 * @property {number} [binlog_position] End of the landing's rows in that file.
 * @property {string} [code] Why the claim was rejected (docs/errors.md).
 * @property {Id} [coupon_id] The coupon that the hop is of.
 * @property {Instant} [due] The coupon's deadline: the end of its validity.
 * @property {string} [gtid] GTID of the landing, as its server writes it.
 * @property {number} [offset] The message's offset.
 * @property {string} [order_ref] The order that redeemed the coupon.
 * @property {number} [partition] The message's partition.
 * @property {number} [stock_from] Stock of the gate before the claim was admitted.
 * @property {number} [stock_to] Stock of the gate behind it.
 * @property {string} [topic] Topic of its message.
 * @property {Instant|null} at
 * @property {string} hop `received`, `admitted` by the gate, `relayed` to the topic of claims, `taken` by a lander from there, `landed` in MySQL, or `rejected`, `given_up` or `lost` instead; then `published` as a change event, `visible` on its user's list; and of each coupon `armed`, with its deadline, and `redeemed`, `expired` or `cancelled`.
 * @property {boolean|null} late Whether it took longer. Null: it cannot be said.
 * @property {string} state `done`; `pending`: it is still to come; `skipped`: this claim does not come there; `unknown`: see `why`.
 * @property {number|null} took_ms Time since the last hop before it whose time is known; of the hop that is waited for, until now; of `expired`, since the coupon's deadline. Null: it cannot be said, or says nothing.
 * @property {string} [usual_of] What was measured for `usual_p99_ms`, or is the goal.
 * @property {number|null} usual_p99_ms What it takes at most in 99 of 100 cases (docs/performance.md); of a wait in a queue, what is still no trouble. Null: there is no figure.
 * @property {string} [why] Why it is pending, skipped or unknown, or its time is.
 */

/**
 * @typedef {object} ClaimHopTraces What a hop left behind.
 * @property {string} [binlog_file] File of the binlog that has the landing.
 * @property {number} [binlog_position] End of the landing's rows in that file.
 * @property {string} [code] Why the claim was rejected (docs/errors.md).
 * @property {Id} [coupon_id] The coupon that the hop is of.
 * @property {Instant} [due] The coupon's deadline: the end of its validity.
 * @property {string} [gtid] GTID of the landing, as its server writes it.
 * @property {number} [offset] The message's offset.
 * @property {string} [order_ref] The order that redeemed the coupon.
 * @property {number} [partition] The message's partition.
 * @property {number} [stock_from] Stock of the gate before the claim was admitted.
 * @property {number} [stock_to] Stock of the gate behind it.
 * @property {string} [topic] Topic of its message.
 */

/** @typedef {'direct'|'queued'|'spill'} ClaimMode */

/**
 * @typedef {object} ClaimPayment A payment that has confirmed held coupons of the claim.
 * @property {string|null} actor `key:` and the key's id, `platform` for the platform's own key, or `topic` for a message on `coupon.payments`. Null: it was not recorded then.
 * @property {Instant} confirmed_at
 * @property {Id[]} coupons The coupons that it confirmed.
 * @property {string} payment_ref
 */

/**
 * @typedef {object} ClaimState The state of a claim.
 * @property {Instant} at When the claim was admitted; for `rejected` and `given_up`, when that was decided, or for a claim of which only the id is known, when it was old enough for that.
 * @property {Claim|null} [claim]
 * @property {string} [code] Why it was rejected (docs/errors.md). Only for `rejected`.
 * @property {Id} id
 * @property {string} status `landed`: the user has the coupons. `processing`: it was admitted, and lands or is given up within moments. `rejected`: it was accepted and is rejected for good, and so is its key. `given_up`: it can never land; the same key sent again is a new claim. `lost`: it had landed, and a failover of MySQL lost it; its unit is on sale again, and the same key sent again is a new claim.
 * @property {Id} template_id
 * @property {Id} [user_id] Absent while only the claim's id is known.
 */

/**
 * @typedef {object} ClaimStory A claim and its way.
 * @property {Instant} at When the claim was admitted; for `rejected` and `given_up`, when that was decided, or for a claim of which only the id is known, when it was old enough for that.
 * @property {Claim|null} [claim]
 * @property {string} [code] Why it was rejected (docs/errors.md). Only for `rejected`.
 * @property {Id} id
 * @property {string} status `landed`: the user has the coupons. `processing`: it was admitted, and lands or is given up within moments. `rejected`: it was accepted and is rejected for good, and so is its key. `given_up`: it can never land; the same key sent again is a new claim. `lost`: it had landed, and a failover of MySQL lost it; its unit is on sale again, and the same key sent again is a new claim.
 * @property {Id} template_id
 * @property {Id} [user_id] Absent while only the claim's id is known.
 * @property {ClaimHop[]} hops The way, in order. That of a claim without an outcome ends with the hop that it waits for.
 * @property {string[]} late The hops that took longer than is usual, by name.
 * @property {ClaimPayment[]} payments The payments that have confirmed held coupons of the claim.
 * @property {Instant} read_at When the story was read. Hops that are pending took until then.
 */

/**
 * @typedef {object} ClaimedCoupon
 * @property {Id} id
 * @property {number} [number] The coupon's number among the user's, from 1 to the limit. Absent if the template has no limit.
 */

/**
 * @typedef {object} ConsoleSession A session of the console, and the key that it stands for.
 * @property {string} csrf_token What the page sends as `X-Csrf-Token` with each change. It is the same for the whole session, from any api.
 * @property {Instant} ends_at When the session ends: twelve hours after it began, or with its key.
 * @property {boolean} is_on_call Whether the key sees every merchant's templates and the health of the platform.
 * @property {Id|null} key_id
 * @property {Id} merchant_id
 * @property {string} name The key's name; `platform` for the platform's own.
 * @property {Scope[]} scopes
 */

/**
 * @typedef {object} Count A number of coupons.
 * @property {number} coupons
 * @property {boolean} more Whether there are more than `coupons`: counting stops at a hundred thousand.
 */

/**
 * @typedef {object} Coupon A coupon as its row says it.
 * @property {Id} claim_id
 * @property {Instant} claimed_at
 * @property {Instant} [held_until] When its hold lapses unless it is confirmed. Only of a held or lapsed coupon.
 * @property {Id} id
 * @property {string} [order_ref]
 * @property {number} [pay_within_ms] What is left of its hold, in milliseconds. Only of a held coupon.
 * @property {CouponStatus} status
 * @property {Id} template_id
 * @property {Instant} [used_at]
 * @property {Instant} valid_from
 * @property {Instant} valid_until
 */

/**
 * @typedef {object} CouponCounts The template's coupons by status, of its whole life.
 * @property {boolean} all_counted Whether these are all: counting ends after two seconds.
 * @property {number} cancelled Revoked, replaced by another coupon, or cancelled with their claim.
 * @property {number} counted Coupons counted, in whichever status.
 * @property {number} expired
 * @property {number|null} expired_percent
 * @property {number} held Not confirmed yet, and still held.
 * @property {number} lapsed Not confirmed in time.
 * @property {number} others In a status that this version does not know.
 * @property {number} unused
 * @property {number} used
 * @property {number|null} used_percent Of `unused`, `used` and `expired` together, to a tenth: the others could not be used. Null: there are none.
 */

/** @typedef {'unused'|'used'|'expired'|'cancelled'|'held'|'lapsed'} CouponStatus */

/**
 * @typedef {object} CouponTemplate What a shop shows of a coupon's template, as it is now. The name may have been edited since the claim; the discount is the one that was promised.
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {string} name
 */

/**
 * @typedef {object} Course Requests over the span that was asked for, in at most 61 steps; without one, over the sale: the seconds in which 98 of 100 claims were answered.
 * @property {Instant} from
 * @property {number[]} requests
 * @property {number} step_seconds
 */

/** @typedef {string} Cursor The `next_cursor` of the page before, of the same collection and filter. Opaque. */

/**
 * @typedef {object} DeskCoupon A coupon with its user, and what became of it.
 * @property {Id} claim_id
 * @property {Instant} claimed_at
 * @property {Instant} [held_until] When its hold lapses unless it is confirmed. Only of a held or lapsed coupon.
 * @property {Id} id
 * @property {string} [order_ref]
 * @property {number} [pay_within_ms] What is left of its hold, in milliseconds. Only of a held coupon.
 * @property {CouponStatus} status
 * @property {Id} template_id
 * @property {Instant} [used_at]
 * @property {Instant} valid_from
 * @property {Instant} valid_until
 * @property {Instant} changed_at
 * @property {string} [given_back_by] The last order that gave it back. That order cannot use it again.
 * @property {LockedFor} [locked_for] The order whose checkout keeps it at the moment. Once the coupon is cancelled, that order is refused (`COUPON_CANCELLED`; after a replacement with `replaced_by`).
 * @property {Id} user_id
 * @property {number} version Rises by one with each change.
 */

/**
 * @typedef {object} DeskCouponInFull A coupon, and its place in a chain of replacements.
 * @property {Id} claim_id
 * @property {Instant} claimed_at
 * @property {Instant} [held_until] When its hold lapses unless it is confirmed. Only of a held or lapsed coupon.
 * @property {Id} id
 * @property {string} [order_ref]
 * @property {number} [pay_within_ms] What is left of its hold, in milliseconds. Only of a held coupon.
 * @property {CouponStatus} status
 * @property {Id} template_id
 * @property {Instant} [used_at]
 * @property {Instant} valid_from
 * @property {Instant} valid_until
 * @property {Instant} changed_at
 * @property {string} [given_back_by] The last order that gave it back. That order cannot use it again.
 * @property {LockedFor} [locked_for] The order whose checkout keeps it at the moment. Once the coupon is cancelled, that order is refused (`COUPON_CANCELLED`; after a replacement with `replaced_by`).
 * @property {Id} user_id
 * @property {number} version Rises by one with each change.
 * @property {Id} [replaced_by] The coupon that took its place.
 * @property {Id} [replaces] The cancelled coupon whose place it takes.
 */

/**
 * @typedef {object} Discount The discount on an order. It has `percent_off` or `amount_off_minor`, as `kind` says; with free shipping neither. Fields that end with `_minor` are in minor units of `currency`: 2000 are 20.00 euros, or 2,000 yen.
 * @property {number|null} [amount_off_minor] Only of `amount_off`: what it takes off.
 * @property {number|null} [cap_minor] Maximum amount that a percentage takes off. Only for `percent_off`.
 * @property {string} currency The currency as an ISO 4217 code.
 * @property {DiscountKind} kind
 * @property {number} [minimum_spend_minor] Smallest order value for which the coupon can be used.
 * @property {Percent|null} [percent_off]
 */

/** @typedef {'amount_off'|'percent_off'|'free_shipping'} DiscountKind */

/**
 * @typedef {object} EditedTemplate The edited template, and what happens to its issued coupons.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {number} hold_ms Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
 * @property {number} max_per_claim
 * @property {number} per_user_limit
 * @property {AcceptAfter} accept_after
 * @property {ClaimMode} claim_mode
 * @property {Id} id
 * @property {number} lapses_allowed Lapsed coupons after which a user is refused further claims; 0: never.
 * @property {string} name
 * @property {ReturnedStock} returned_stock What becomes of a coupon that lapsed or was cancelled.
 * @property {boolean} self_redeem Whether users may redeem its coupons with their own token; otherwise only the shop does, with a key.
 * @property {boolean} stackable Whether one order may redeem its coupons together with others.
 * @property {TemplateState} state
 * @property {number} version
 * @property {string[]} [warnings] What is accepted but probably not meant, for people. Present if there is something.
 * @property {IssuedCoupons} [issued_coupons] Present if the request names a validity.
 */

/**
 * @typedef {object} EndedDrain A drain that was ended.
 * @property {number} epoch The epoch under which the gate is loaded now. Nothing that was queued under an older one can land.
 * @property {Id} template_id
 */

/**
 * @typedef {object} Expiry A report on expiry.
 * @property {Lateness} lateness
 * @property {Hour[]} next_24_hours Deadlines of the next day, hour by hour from now.
 * @property {Instant} now When the report was made, by the api's clock.
 * @property {Overdue} overdue
 */

/**
 * @typedef {object} Finding Something that is not as it should be, as the last look judged it.
 * @property {Id} [claim_id] The claim that it is about.
 * @property {number} coupons How many coupons it is about; 0: it is no matter of their number.
 * @property {Instant} [decided_at] When it was accepted, repaired or overtaken.
 * @property {string} [decided_by] By whom: `key:` and a key's id, `platform`, or `reconciler`.
 * @property {number} [epoch] The epoch of the gate or stock that was judged.
 * @property {string} expected What should be there. Empty: only the sentence says it.
 * @property {Instant} first_seen
 * @property {Id} id
 * @property {FindingKind} kind
 * @property {Instant} last_seen
 * @property {string} line A sentence for people.
 * @property {number} looks How often it was found.
 * @property {Id} merchant_id The template's merchant; 1 for what belongs to the platform.
 * @property {number} [money_minor] What these are worth at most, in minor units of the template's currency. Absent: not known.
 * @property {string} [reason] Why, in the operator's words.
 * @property {string} seen What is there.
 * @property {FindingState} state
 * @property {Id} [template_id] Absent: it is about no template.
 * @property {Id} [user_id] The user whom it is about.
 * @property {number} [version] The version of the row that was judged.
 */

/** @typedef {'account'|'oversold'|'claim'|'limit'|'number_leaked'|'number_missing'|'request'|'gate_stock'|'view'|'late'} FindingKind */

/** @typedef {'open'|'repairing'|'repaired'|'accepted'|'overtaken'} FindingState */

/**
 * @typedef {object} GateNotLoaded A gate that should be loaded and is not.
 * @property {Instant} opens_at When its claim window opens, or has opened.
 * @property {Id} template_id
 */

/**
 * @typedef {object} Health The health of the platform.
 * @property {GateNotLoaded[]|null} gates_not_loaded Templates that give coupons now or within `PRELOAD_SECONDS`, and whose gate was not loaded at the last look. Null: unknown, as while MySQL or the gate is away.
 * @property {Impact} impact
 * @property {string|null} leader Admin address of the tailer that publishes. Null: none, or none that is in `ADMIN_PEERS`.
 * @property {number|null} list_lag_seconds Age of the oldest change that is on the topics and not in the users' lists, in seconds. Null: unknown, as while no tailer leads.
 * @property {Instant} now When the processes were asked, by the api's clock.
 * @property {object[]} processes Each process: its build, its parts and servers with since when they are up or down, and what it says of itself. One that does not answer has an `error`, and `since` when.
 * @property {number|null} publish_lag_seconds Age of the oldest change that is not on the topics for certain, in seconds. Null: unknown.
 * @property {string} status The worst of all processes. Whether users notice, says `impact`.
 */

/**
 * @typedef {object} Hour The deadlines of one hour.
 * @property {number} coupons
 * @property {boolean} more Whether there are more than `coupons`: counting stops at a hundred thousand.
 * @property {Instant} from
 */

/** @typedef {string} Id A decimal number from 0 to 9223372036854775807. */

/**
 * @typedef {object} Impact What users notice, why, and what to do. An ability is `works`, `late` (later than usual, or not for everybody), `stopped` or `unknown`.
 * @property {string|null} action What to do about the cause. Null: nothing.
 * @property {string[]} also The other causes.
 * @property {string|null} cause What explains most of it. Null: all is well.
 * @property {string} claims Claims that are answered once they have landed.
 * @property {string} expiry Marking coupons as expired, and returning holds that lapsed. No coupon can be used late.
 * @property {string} lists Users' lists of coupons. `late`: they lack what is new, or some are not served.
 * @property {string} payments Confirmations of holds. `late`: those by HTTP work, those sent as messages wait.
 * @property {string} queued_claims Claims of templates that queue. `late`: they are taken, and land later. `unknown`: also if the platform runs no queue.
 * @property {string} sentence All of it, for people.
 * @property {Instant|null} since
 * @property {string} state `down`: it does not sell. `degraded`: something else is late or stopped, or will be. `unknown`: not everything is known.
 */

/** @typedef {string} Instant RFC 3339. Answers are in UTC, to the millisecond; requests may have any offset. */

/**
 * @typedef {object} IssuedCoupons What happens to the coupons issued before a change.
 * @property {number} count Number of these coupons.
 * @property {boolean} follow
 * @property {string} [progress] Path that shows how far they have followed.
 */

/**
 * @typedef {object} Job A job, as it was created. It consists of values that never change: a replay has the same bytes.
 * @property {Instant} created_at
 * @property {boolean} from_stock Whether it grants from the stock. Otherwise coupons were added to the total first.
 * @property {Id} id
 * @property {number} quantity Coupons for each row.
 * @property {string} reason
 * @property {number} rows Number of rows: one for each user that was named.
 * @property {Id} template_id
 */

/**
 * @typedef {object} JobProgress A job and its progress.
 * @property {Instant} created_at
 * @property {boolean} from_stock Whether it grants from the stock. Otherwise coupons were added to the total first.
 * @property {Id} id
 * @property {number} quantity Coupons for each row.
 * @property {string} reason
 * @property {number} rows Number of rows: one for each user that was named.
 * @property {Id} template_id
 * @property {Instant} [ended_at]
 * @property {object} outcomes Number of rows by outcome. Outcomes of no row are absent.
 * @property {number} pending Rows without an outcome so far.
 * @property {JobState} state
 * @property {string} [waits_for] Code of the error that its rows wait for to pass, e.g. `PAUSED`.
 */

/** @typedef {'running'|'cancelling'|'finished'|'cancelled'} JobState */

/**
 * @typedef {object} KnownSpan What is known of a span.
 * @property {boolean} complete Whether all of the span's statistics were read. Otherwise counts are too low: the span is older than 30 days, the time for reading was over, or the statistics cannot be read.
 * @property {Instant|null} known_from
 * @property {Instant|null} known_to
 */

/**
 * @typedef {object} LatePayment A payment of held coupons that was refused for good.
 * @property {string} actor Who sent it: `key:` and the id of the key, `platform` for the platform's own key, or `topic` for a message.
 * @property {Id} claim_id
 * @property {string} code Code of the refusal.
 * @property {Id|null} confirmed_claim_id
 * @property {Id} coupon_id The coupon that it was refused for.
 * @property {Instant|null} lapsed_at
 * @property {string} payment_ref
 * @property {Instant|null} refunded_at
 * @property {string|null} refunded_by Who said so: `key:` and the id of the key, or `platform`. Null: nobody has.
 * @property {Instant} refused_at When it was refused first.
 * @property {Id} template_id
 * @property {Id} user_id
 */

/**
 * @typedef {object} Lateness How late the latest flips were: at most a hundred of each shard, within a day.
 * @property {number} flips
 * @property {number|null} max_ms
 * @property {number|null} p50_ms
 * @property {number|null} p99_ms
 */

/**
 * @typedef {object} LedgerEntry An entry of the ledger: something that changed the stock.
 * @property {string|null} actor Who moved it. Null: it is a claim.
 * @property {Instant} at When: of a claim, when it was made.
 * @property {Id|null} claim_id
 * @property {LedgerKind} kind
 * @property {number} quantity Change of the stock.
 * @property {string|null} reason Why. Null: it is a claim.
 * @property {number|null} seq Number of the movement. Null: it is a claim.
 * @property {number} total_change Change of the total.
 * @property {Id|null} user_id
 */

/** @typedef {'claim'|'total'|'return'|'lift'} LedgerKind */

/**
 * @typedef {object} LedgerKindTotal Sums over the movements of one kind.
 * @property {LedgerKind} kind
 * @property {number} movements Number of movements.
 * @property {number} quantity Sum of the changes of the stock.
 * @property {number} total_change Sum of the changes of the total.
 */

/**
 * @typedef {object} LedgerPage A page of the ledger.
 * @property {LedgerEntry[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {LedgerTotals} [totals] Sums over the whole ledger, of every kind. Only on the first page, and not if the kind of a movement cannot be read.
 * @property {string[]} [unreadable] Entries that cannot be read, because a value of theirs is damaged: `claim` and its id, or `movement` and its number. Absent: there is none.
 */

/**
 * @typedef {object} LedgerTotals Sums over a template's ledger. `claims` and the quantities of `kinds` together are the stock.
 * @property {number} claims What landed claims took from the stock: 0 or less.
 * @property {LedgerKindTotal[]} kinds Movements, by kind.
 * @property {number} stock The stock now.
 */

/**
 * @typedef {object} ListedStock What was given out of a template, according to MySQL.
 * @property {number} landed Coupons that users got.
 * @property {number} left Coupons that can still be claimed.
 * @property {number} total Sum of all movements.
 * @property {number|null} used Coupons that are used now. Null: too many to be counted for a list.
 */

/**
 * @typedef {object} LiveSample The live figures of all sales that the caller may see, as of one moment.
 * @property {Impact|null} impact
 * @property {number|null} left_out How many further ones are left out: a sample has at most 256 of all merchants. Null: not known.
 * @property {Instant} now When it was made, by the clock of sales.
 * @property {LiveTemplate[]|null} templates What is open, is paused, or opens within `PRELOAD_SECONDS`, in this order. Null: not known.
 */

/**
 * @typedef {object} LiveSecond Answers of one api to the claims of a template in one second.
 * @property {number} accepted In a queue: 202.
 * @property {number} claims All answers.
 * @property {number} landed Landed now: 201.
 * @property {Object<string, number>} refused Refusals by code (docs/errors.md).
 * @property {number} undecided Answers that decided nothing: 503.
 */

/**
 * @typedef {object} LiveTemplate A template, live. Of its coupons: `confirmed + held + in_flight + left + drift = total`, where a null drift counts as 0. Null: not known at the moment, never 0.
 * @property {Instant} claim_ends_at
 * @property {ClaimMode} claim_mode
 * @property {Instant} claim_starts_at
 * @property {number|null} claims_in_flight Claims, not coupons, that are not known to the gate to have ended.
 * @property {number|null} claims_queued Those of them that are queued.
 * @property {number|null} confirmed
 * @property {number|null} drift What no claim and no movement explains: 0 in a sound system. Null: it cannot be judged while claims run.
 * @property {boolean|null} gate_loaded Whether the gate decides claims.
 * @property {number|null} held Null also: more than 10,000, too many to count each second.
 * @property {Id} id
 * @property {number|null} in_flight Between the gate and MySQL: admitted and not landed, or given back and not at the gate yet.
 * @property {number|null} landed In MySQL, without those that came back: `confirmed` and `held`.
 * @property {LiveSecond|null} last_second
 * @property {number|null} left What the gate has left to give.
 * @property {Id} merchant_id
 * @property {string} name
 * @property {number|null} queued Those of them that are queued.
 * @property {string} state `paused`: in MySQL, or at its gate while MySQL is away.
 * @property {number|null} total Sum of all stock movements.
 */

/**
 * @typedef {object} LockedFor The lock of a checkout.
 * @property {Instant} locked_until When it lapses.
 * @property {string} order_ref
 */

/**
 * @typedef {object} Merchant A merchant.
 * @property {Instant} created_at
 * @property {Id} id
 * @property {string} name
 */

/**
 * @typedef {object} Movement A stock movement. It consists of values that never change: a replay has the same bytes.
 * @property {number} delta
 * @property {string} reason
 * @property {number} seq Number of the movement, without gaps. 1 is the template's creation.
 * @property {number} stock The stock after the movement.
 * @property {Id} template_id
 * @property {number} total The total after the movement.
 */

/** @typedef {'total'|'return'|'lift'} MovementKind */

/**
 * @typedef {object} NewApiKey A new key with its secret.
 * @property {Instant} created_at
 * @property {Instant|null} expires_at
 * @property {Id} id
 * @property {Instant|null} last_used_at
 * @property {Id} merchant_id
 * @property {string} name
 * @property {Instant|null} revoked_at
 * @property {Scope[]} scopes
 * @property {string} key Value of the `X-Api-Key` header. It is shown again only to the same request with the same `Idempotency-Key`.
 */

/**
 * @typedef {object} Overdue Unused coupons whose deadline has passed. They already count as expired; only their rows are not updated yet.
 * @property {number} coupons
 * @property {boolean} more Whether there are more than `coupons`: counting stops at a hundred thousand.
 * @property {number|null} oldest_age_ms Age of the oldest overdue deadline, in milliseconds. Null: nothing is overdue.
 */

/**
 * @typedef {object} Page_AuditEntry A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_DeskCoupon A page of a collection.
 * @property {(Coupon&object)[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_Finding A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_JobRow A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_LatePayment A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_ListedJob A page of a collection.
 * @property {(Job&object)[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_ListedTemplate A page of a collection.
 * @property {(Template&object)[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_Merchant A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_ShownCoupon A page of a collection.
 * @property {(Coupon&object)[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_TemplateClaim A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_TemplateMovement A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} Page_UserLapses A page of a collection.
 * @property {object[]} data
 * @property {boolean} has_more
 * @property {Cursor|null} next_cursor
 * @property {Id[]} [unreadable] Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
 */

/**
 * @typedef {object} PausedAtGate A template that is paused at its gate, and will be in MySQL.
 * @property {string} detail
 * @property {Id} id
 * @property {boolean} paused_at_gate
 * @property {Instant} since When it was paused first.
 */

/** @typedef {string|number} Percent A percentage with at most two decimals, as a text or a number: 20 is a fifth. Answers have the text. */

/**
 * @typedef {object} Readiness Whether the next sale of a template can begin.
 * @property {ReadinessItem[]} items `published`, `window`, `validity`, `stock`, `gate`, `servers`, `clocks`, `lists` and `processes`, in this order.
 * @property {Instant} now When it was looked at, by MySQL's clock.
 * @property {Instant} opens_at When claims open, or opened.
 * @property {boolean|null} ready Whether every item is `ok`. Null: none is known to be wrong, but not all are known.
 * @property {string} sentence That, and the first item that is not `ok`, for people.
 * @property {Id} template_id
 */

/**
 * @typedef {object} ReadinessItem One item of the checklist.
 * @property {string|null} action What to do, for people. Null: nothing.
 * @property {string} name
 * @property {boolean|null} ok Null: not known.
 * @property {string} sentence What is so, for people.
 */

/**
 * @typedef {object} RebuiltGate A gate that was rebuilt.
 * @property {number} epoch The gate's new epoch. Nothing that was admitted under an older one can land.
 * @property {Id} template_id
 */

/**
 * @typedef {object} RebuiltView A view that was rebuilt.
 * @property {Id} user_id
 */

/**
 * @typedef {object} RedemptionTotals What the template's coupons were redeemed for, of its whole life, without what was rolled back. Money is in minor units of `currency`.
 * @property {boolean} all_counted Whether these are all: adding up ends after two seconds, with the redemptions that were made first.
 * @property {string} currency
 * @property {number} discount Discount given.
 * @property {string} discount_text `discount` in the currency's units, for people.
 * @property {number} redeemed
 * @property {number} revenue What the orders were left to pay.
 * @property {string} revenue_text `revenue` in the currency's units, for people.
 */

/**
 * @typedef {object} ReplacedCoupon A coupon that was revoked, and the one in its place.
 * @property {DeskCoupon} cancelled
 * @property {DeskCoupon} replacement
 */

/**
 * @typedef {object} Report A sale.
 * @property {boolean} complete Whether all of the span's statistics were read. Otherwise counts are too low: the span is older than 30 days, the time for reading was over, or the statistics cannot be read.
 * @property {Instant|null} known_from
 * @property {Instant|null} known_to
 * @property {SaleAnswers|null} answers
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {CouponCounts} coupons
 * @property {Instant} from Begin of the span of `answers`.
 * @property {string} name
 * @property {RedemptionTotals} redemption
 * @property {TemplateState} state
 * @property {TakenStock} stock
 * @property {Id} template_id
 * @property {Instant} to Its end, exclusive.
 */

/** @typedef {'resell'|'retire'} ReturnedStock */

/** @typedef {'pending'|'granted'|'duplicate'|'invalid_user_id'|'limit_reached'|'sold_out'|'insufficient_stock'|'not_open'|'closed'|'ended'|'cancelled'|'banned'} RowOutcome */

/**
 * @typedef {object} SaleAnswers What claims were answered.
 * @property {number} accepted Queued claims that were answered 202, with repeated answers. They land, or are rejected, later.
 * @property {number} landed Claims that landed, without repeated answers.
 * @property {number|null} landed_p99_ms As `p99_ms`, of the claims that landed.
 * @property {number|null} p50_ms Half of all answers took at most this long. Null: there are none.
 * @property {number|null} p99_ms 99 of 100 answers took at most this long.
 * @property {Object<string, number>} refused Refusals by code (docs/errors.md).
 * @property {number} replayed Repeated answers of landed claims.
 * @property {number} requests All answers.
 * @property {Object<string, number>} unknown Answers that decided nothing (503), by code: the claim may have landed, and the same key finds out.
 * @property {Course} course
 * @property {Instant|null} peak_at
 * @property {number} peak_per_second Answers of the busiest second.
 * @property {number|null} sold_out_after_ms From the begin of the claim window to `sold_out_at`; less than a second too early.
 * @property {Instant|null} sold_out_at
 */

/** @typedef {'read'|'operate'|'admin'|'redeem'|'emergency'} Scope */

/**
 * @typedef {object} SearchHit One thing that the text names.
 * @property {string} id Its id; of an order its `order_ref`.
 * @property {string} kind
 * @property {string|null} name Of a template, its name. Null: it is another thing.
 * @property {string} path Where it is shown: the path and query of a `GET`.
 * @property {Id|null} template_id
 * @property {Id|null} user_id
 */

/**
 * @typedef {object} SearchResult What a text names.
 * @property {SearchHit[]} items At most 20: a template, coupon, claim and user of this id, an order, then templates by name, the newest first.
 * @property {boolean} more Whether further templates may have the text in their name: send more of the name.
 */

/** @typedef {'upcoming'|'open'|'sold_out'|'paused'|'closed'|'ended'} ShopState The state of a template for shoppers. */

/**
 * @typedef {object} ShopTemplate A template as a shopper sees it.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {number} hold_ms Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
 * @property {number} max_per_claim
 * @property {number} per_user_limit
 * @property {Id} id
 * @property {number|null} left Coupons that are left. Null: not known at the moment, e.g. while the gate is being loaded, or the template is over.
 * @property {string} name
 * @property {number} opens_in_ms Milliseconds until claims open, by MySQL's clock at the time of the answer. 0: they are open, or were. For a countdown that does not depend on the shopper's clock.
 * @property {ShopState} state
 * @property {number|null} total Coupons that are given out in all. Null: not known at the moment; the next answer has it.
 */

/**
 * @typedef {object} ShownTemplate A template with its total: with these fields, but `id`, `state`, `version`, `discount_text` and `warnings`, another one can be created.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {number} hold_ms Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
 * @property {number} max_per_claim
 * @property {number} per_user_limit
 * @property {AcceptAfter} accept_after
 * @property {ClaimMode} claim_mode
 * @property {Id} id
 * @property {number} lapses_allowed Lapsed coupons after which a user is refused further claims; 0: never.
 * @property {string} name
 * @property {ReturnedStock} returned_stock What becomes of a coupon that lapsed or was cancelled.
 * @property {boolean} self_redeem Whether users may redeem its coupons with their own token; otherwise only the shop does, with a key.
 * @property {boolean} stackable Whether one order may redeem its coupons together with others.
 * @property {TemplateState} state
 * @property {number} version
 * @property {string[]} [warnings] What is accepted but probably not meant, for people. Present if there is something.
 * @property {number} total_stock Number of coupons to give out: the sum of all stock movements.
 */

/**
 * @typedef {object} Stock A template's stock in MySQL and in its gate.
 * @property {number|null} confirmed The others of them, whatever became of them. Null: as `held`.
 * @property {number|null} drift MySQL's stock minus the gate's, while nothing is in flight and both include the same movements; otherwise null. 0 in a quiet system.
 * @property {number} epoch The gate's epoch, according to MySQL.
 * @property {number|null} gate_stock What the gate has left to give. Null: the gate is not loaded.
 * @property {number|null} held Those of them that are held. Null: more than 10,000 coupons, too many to count at each look.
 * @property {number|null} in_flight Admissions that have not landed yet. Null: the gate is not loaded.
 * @property {number|null} in_flight_oldest_ms Age of the oldest of these in milliseconds: how far MySQL is behind the gate. Null: there is none.
 * @property {number} landed Coupons that have landed in MySQL, without those that came back.
 * @property {number} queued_epoch The epoch whose queued claims land. Below `epoch`: the gate waits until those of the older one have landed.
 * @property {number} stock `total` minus `landed`.
 * @property {number} total Sum of all stock movements.
 */

/**
 * @typedef {object} TakenStock The stock, of the whole life of the template.
 * @property {number} landed
 * @property {number} left
 * @property {number} total
 */

/**
 * @typedef {object} Template A template as an operator sees it.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {number} hold_ms Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
 * @property {number} max_per_claim
 * @property {number} per_user_limit
 * @property {AcceptAfter} accept_after
 * @property {ClaimMode} claim_mode
 * @property {Id} id
 * @property {number} lapses_allowed Lapsed coupons after which a user is refused further claims; 0: never.
 * @property {string} name
 * @property {ReturnedStock} returned_stock What becomes of a coupon that lapsed or was cancelled.
 * @property {boolean} self_redeem Whether users may redeem its coupons with their own token; otherwise only the shop does, with a key.
 * @property {boolean} stackable Whether one order may redeem its coupons together with others.
 * @property {TemplateState} state
 * @property {number} version
 * @property {string[]} [warnings] What is accepted but probably not meant, for people. Present if there is something.
 */

/**
 * @typedef {object} TemplatePreview What shoppers would see of a template, and what is probably not meant.
 * @property {ShopTemplate} shop The shop's page once the template is published and nothing is claimed. Its `id` is `0`: there is none yet.
 * @property {string[]} warnings What is accepted but probably not meant, for people.
 */

/** @typedef {'draft'|'published'|'paused'|'ended'} TemplateState */

/**
 * @typedef {object} Terms The terms that are promised to users who claim.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 * @property {Instant} claim_ends_at
 * @property {Instant} claim_starts_at
 * @property {Discount} discount
 * @property {string} discount_text The discount in plain English, with money in the currency's units, for people.
 * @property {number} hold_ms Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
 * @property {number} max_per_claim
 * @property {number} per_user_limit
 */

/**
 * @typedef {object} Timeseries What claims of a template were answered, step by step.
 * @property {boolean} complete Whether all of the span's statistics were read. Otherwise counts are too low: the span is older than 30 days, the time for reading was over, or the statistics cannot be read.
 * @property {Instant|null} known_from
 * @property {Instant|null} known_to
 * @property {Instant} from Begin of the first step: `from` of the request, or up to a step before.
 * @property {TimeseriesPoint[]} points One for each step, also for those without a request.
 * @property {number} step_seconds
 * @property {Id} template_id
 * @property {Instant} to End of the last step, exclusive.
 */

/**
 * @typedef {object} TimeseriesPoint One step.
 * @property {number} accepted Queued claims that were answered 202, with repeated answers. They land, or are rejected, later.
 * @property {number} landed Claims that landed, without repeated answers.
 * @property {number|null} landed_p99_ms As `p99_ms`, of the claims that landed.
 * @property {number|null} p50_ms Half of all answers took at most this long. Null: there are none.
 * @property {number|null} p99_ms 99 of 100 answers took at most this long.
 * @property {Object<string, number>} refused Refusals by code (docs/errors.md).
 * @property {number} replayed Repeated answers of landed claims.
 * @property {number} requests All answers.
 * @property {Object<string, number>} unknown Answers that decided nothing (503), by code: the claim may have landed, and the same key finds out.
 * @property {Instant} at Begin of the step.
 * @property {number} peak_per_second Answers of its busiest second.
 */

/**
 * @typedef {object} UserLapses A user's lapses of a template.
 * @property {boolean} banned Whether the user's claims are refused with `BANNED`.
 * @property {number} lapses Coupons that the user let lapse since a ban was last lifted. A claim of three counts three.
 * @property {number} lapses_allowed As many as the template allows; 0: any number.
 * @property {Id} template_id
 * @property {Id} user_id
 */

/**
 * @typedef {object} Validity A validity: two instants, or a duration from the claim on.
 * @property {number} [valid_for_ms]
 * @property {Instant} [valid_from]
 * @property {Instant} [valid_until]
 */

/**
 * @typedef {object} Whoami A caller, as the api knows it.
 * @property {Instant|null} ends_at
 * @property {Id|null} key_id
 * @property {Id} merchant_id
 * @property {string} name The key's name; `platform` for the platform's own.
 * @property {Scope[]} scopes
 */

export {};
