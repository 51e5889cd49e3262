//! Parameters of the controller, each with its unit and its reason.

/// Parameters. Rates are in datagrams per second, windows in datagrams per least round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    // ---- memory ----
    /// Base delays are remembered for so many seconds or round trips, whichever is longer.
    pub(super) base_memory_s: f64,
    pub(super) base_memory_rtts: f64,
    /// Greatest drift of the peer's clock that is taken off delays, seconds per second: more than clocks have, so that
    /// a receiver that lies about its clock gains nothing.
    pub(super) drift_max: f64,
    /// Rounds sent at this part of the present rate or faster have a comparable base delay: jitter that keeps the
    /// order delays dense packets more.
    pub(super) comparable_rate: f64,
    /// Deliveries are remembered for so many seconds or round trips.
    pub(super) delivery_memory_s: f64,
    pub(super) delivery_memory_rtts: f64,
    /// Arrivals and gaps that a delivery spans at least.
    pub(super) delivery_arrivals: f64,
    pub(super) delivery_gaps: f64,
    /// Round trips that one round counts for in that memory at most: outages do not age it.
    pub(super) active_rtts: f64,
    /// Gaps and jumps fade within so many seconds or round trips; a gap counts as this many round trips at most.
    pub(super) gap_memory_s: f64,
    pub(super) gap_memory_rtts: f64,
    pub(super) gap_rtts_max: f64,
    /// Datagrams that left in more than this factor of their interval: the sender paused, which is no gap of the path.
    pub(super) pause_times: f64,
    /// Quantile of delays that counts as the least: the first datagrams behind a pause are not delayed as the rest is.
    pub(super) low_quantile: f64,
    /// Greatest burstiness of losses in verdicts, and where a question is only asked.
    pub(super) burst_max: f64,
    pub(super) burst_ask_max: f64,

    // ---- trains ----
    /// Datagrams of the first train, its growth if it arrived too fast to tell, and the longest.
    pub(super) train: f64,
    pub(super) train_growth: f64,
    pub(super) train_max: f64,
    /// A train of which more is lost does not tell a rate.
    pub(super) train_lost_max: f64,
    /// A train that the application interrupted is none if it left in more than this part of the time in which it
    /// arrived; the window is this factor of it then.
    pub(super) limited_train: f64,
    pub(super) limited_growth: f64,
    /// Datagrams of later trains, and their interval.
    pub(super) later_train: f64,
    pub(super) later_train_s: f64,
    pub(super) later_train_rtts: f64,
    /// Rounds with a queue that others made.
    pub(super) queued_rounds: u32,
    /// A train of which too little is known is followed by one twice as long, up to this many datagrams and that part
    /// of a window.
    pub(super) later_train_max: f64,
    pub(super) later_train_part: f64,
    /// Part of the rate behind a train until its datagrams are made up for.
    pub(super) repays: f64,
    /// Weight of a train in the rate that trains find, and of one through an empty queue.
    pub(super) train_weight: f64,
    pub(super) train_weight_clear: f64,
    /// Rounds without a queue after which it has vanished, at a window greater by this than the one that made it.
    pub(super) vanished: f64,
    pub(super) low_rounds: u32,
    /// Round trips to the second train after a queue has vanished; each further pause is twice as long.
    pub(super) soon_rtts: f64,

    // ---- law ----
    /// A round is this part of a window, so many datagrams, and so many gaps at least.
    pub(super) round_part: f64,
    pub(super) round_min: f64,
    pub(super) round_gaps: f64,
    /// Part of the way to its target that a round takes the queue, and the largest step.
    pub(super) gain: f64,
    pub(super) step_max: f64,
    /// Least target of the queue: part of the round trip, seconds, datagrams.
    pub(super) target_rtt: f64,
    pub(super) target_s: f64,
    pub(super) target_datagrams: f64,
    /// Part of the round trip that the datagrams of a small share may add to its target.
    pub(super) small_target_rtt: f64,
    /// Part of the jitter that is added to it.
    pub(super) target_jitter: f64,
    /// Price of a small share, seconds and round trips at most.
    pub(super) price_s: f64,
    pub(super) price_rtts: f64,
    /// The law grows to this factor of what is delivered, and shrinks to that part of it at once.
    pub(super) law_growth: f64,
    /// The same on a path that others use, too: delivery follows a small share.
    pub(super) shared_growth: f64,
    pub(super) law_floor: f64,
    /// No rate exceeds this factor of the delivery.
    pub(super) exceeded: f64,
    /// Part of the capacity that is used where a queue would take the time of messages.
    pub(super) spares: f64,
    /// A delivery that was all the path takes bounds the window by this factor.
    pub(super) ceiling: f64,
    /// More loss than the path's own by this forbids growth.
    pub(super) loss_more: f64,
    /// Weight of older rounds in the loss.
    pub(super) loss_kept: f64,
    /// Part of the longest queue at an overflow that the target may take, and its growth per round trip.
    pub(super) limit_part: f64,
    pub(super) limit_growth: f64,
    /// Part of that which many small shares may ask for beyond it.
    pub(super) beyond_limit: f64,
    pub(super) window_min: f64,

    // ---- experiments ----
    /// Delivery follows the rate if the followed part exceeds this.
    pub(super) follows: f64,
    /// Datagrams and gaps of an arm at least; of a loss probe, seconds too (the memory of an AQM).
    pub(super) arm_min: f64,
    pub(super) arm_gaps: f64,
    pub(super) arm_s: f64,
    /// First part of an arm that is not judged.
    pub(super) settles: f64,
    /// An open verdict asks again with more datagrams, up to this factor.
    pub(super) more_max: f64,
    /// From this factor on the likelier answer counts in a start.
    pub(super) more_likely: f64,
    /// Part of what was delivered, with the path's own loss added, that a window is restored to.
    pub(super) restored: f64,
    /// Beside others, more is asked for only where the law's own steps are smaller than this.
    pub(super) asks_below: f64,
    /// Factors of the rate: loss probe; probe up, first and at most.
    pub(super) half: f64,
    pub(super) up: f64,
    pub(super) up_max: f64,
    /// The same of a window of few datagrams.
    pub(super) small_up_max: f64,
    /// Two standard errors of a loss that is well known.
    pub(super) known_loss: f64,
    /// Trains that promise this factor of what they promised when a probe failed make another one due.
    pub(super) promising: f64,
    /// Pauses, round trips, and their greatest multiple while the answers stay the same.
    pub(super) loss_pause_rtts: f64,
    pub(super) up_pause_rtts: f64,
    pub(super) pause_max: f64,
    /// Lowering beliefs are asked again after so many seconds or round trips.
    pub(super) verify_s: f64,
    pub(super) verify_rtts: f64,
    pub(super) verify_times: f64,
    /// Weight of earlier arms.
    pub(super) evidence_kept: f64,
    /// The start is full below this followed part, whatever the doubt.
    pub(super) surely_full: f64,
    /// Falls of delivery below that at a lower rate that count as bursts.
    pub(super) falls_max: u32,
    pub(super) burst_part: f64,
    pub(super) faster: f64,
    /// A round at less than this part of its rate did not try it.
    pub(super) permitted: f64,
    pub(super) queued: f64,
    /// Excess of a queueing delay over its target, round trips, that counts for a pulse.
    pub(super) high_rtt: f64,
    /// Part of the delay of the round before that such a delay keeps.
    pub(super) stays: f64,
    /// Number of such rounds in a row before a pulse tests if the delay is the path's.
    pub(super) high_rounds: u32,
    /// Part of the capacity that a pulse adds to the rate, and the capacity at most, as a factor of the rate.
    pub(super) pulse: f64,
    pub(super) pulse_max: f64,
    /// Part of its rate at which a pulse arrives if it met no queue.
    pub(super) undispersed: f64,

    // ---- company ----
    /// Delays that differ by less than this part of a round trip or these seconds are the same.
    pub(super) flat_rtt: f64,
    pub(super) flat_s: f64,
    /// Round trips without a queue after which a path is not taken for full any more.
    pub(super) flat_rtts: f64,
    /// A queue has had the time to drain after this factor of what that takes at the load behind it, which counts as
    /// no more than this.
    pub(super) drain_times: f64,
    pub(super) drain_load_max: f64,
    /// Part of the rate that a drain of a shared path sends.
    pub(super) drain_part: f64,
    /// Round trips from the cause of a drain to the drain.
    pub(super) drain_rtts: f64,
    /// Round trips between drains that overflows cause.
    pub(super) overflow_drain_rtts: f64,
    /// The least delay has fallen if it did so by this part of a round trip, or these seconds.
    pub(super) fell_rtt: f64,
    pub(super) fell_s: f64,
    /// So many equal answers in a row refute that others fill the path.
    pub(super) same_min: u32,
    /// A share of the capacity that counts as all of it.
    pub(super) alone_share: f64,
    /// A loss probe of a smaller share than this does not tell whose the loss is.
    pub(super) decisive_share: f64,
    /// A path that loses more of a train, or that much more of it than of what follows, is full.
    pub(super) full_loss: f64,
    pub(super) train_loses_more: f64,
    /// Datagrams of rounds that a start judges, at least, and of its rounds on a lossy path.
    pub(super) judged_min: f64,
    pub(super) start_min: f64,
    /// Loss of paced datagrams beside which a lost train means a full path, and no short buffer.
    pub(super) suspect_loss: f64,
    /// A train that loses more than the rest by no more than this has met no full queue.
    pub(super) train_clean: f64,
    /// Datagrams of a train without a loss in between that tell a rate, and the factor of it that is believed.
    pub(super) clean_min: f64,
    pub(super) clean_part: f64,
    /// A start that loses so much more than its earlier rounds overflows a queue.
    pub(super) start_loses_more: f64,
    /// Part of the first train's promise that is tried: behind flat delays, falling ones, and others.
    pub(super) flat_part: f64,
    pub(super) falling_part: f64,
    pub(super) first_part: f64,
    /// First window on a path that others fill, as a factor of the first train.
    pub(super) busy_trains: f64,
    /// A queue that was longer than this tells where it ends: datagrams, and seconds.
    pub(super) seen_datagrams: f64,
    pub(super) seen_s: f64,
    /// A queue that grows by more than this factor of what we add to it is not ours alone.
    pub(super) ours_max: f64,
    /// Seconds and round trips after which a long queue is that of rivals: flows with this controller drain it before.
    pub(super) lasting_s: f64,
    pub(super) lasting_rtts: f64,
    /// Part of what arrived that a flow begins with on a path that was full before.
    pub(super) joins: f64,
    /// An overflow at less than this part of the first train's promise is one of others.
    pub(super) joined_part: f64,
    /// Part of losses by which a flow yields on a path that others fill.
    pub(super) busy_yields: f64,
}

impl Params {
    pub(super) const DEFAULT: Self = Self {
        base_memory_s: 15.0,
        base_memory_rtts: 60.0,
        drift_max: 0.02,
        comparable_rate: 0.2,
        delivery_memory_s: 2.0,
        delivery_memory_rtts: 10.0,
        delivery_arrivals: 32.0,
        delivery_gaps: 6.0,
        active_rtts: 4.0,
        gap_memory_s: 1.0,
        gap_memory_rtts: 10.0,
        gap_rtts_max: 2.0,
        pause_times: 3.0,
        low_quantile: 0.2,
        burst_max: 16.0,
        burst_ask_max: 2.0,
        train: 16.0,
        train_growth: 8.0,
        train_max: 1024.0,
        train_lost_max: 0.6,
        limited_train: 0.5,
        limited_growth: 3.0,
        later_train: 8.0,
        later_train_s: 1.0,
        later_train_rtts: 10.0,
        later_train_max: 64.0,
        later_train_part: 0.2,
        repays: 0.5,
        train_weight: 0.5,
        train_weight_clear: 0.9,
        vanished: 1.02,
        low_rounds: 2,
        queued_rounds: 8,
        soon_rtts: 1.0,
        round_part: 0.4,
        round_min: 4.0,
        round_gaps: 1.5,
        gain: 0.6,
        step_max: 0.3,
        target_rtt: 0.02,
        target_s: 0.001,
        target_datagrams: 1.5,
        small_target_rtt: 0.08,
        target_jitter: 0.5,
        price_s: 0.006,
        price_rtts: 0.2,
        law_growth: 1.03,
        shared_growth: 1.25,
        law_floor: 0.85,
        exceeded: 2.0,
        spares: 0.965,
        ceiling: 1.03,
        loss_more: 0.02,
        loss_kept: 0.7,
        limit_part: 0.5,
        limit_growth: 0.01,
        beyond_limit: 0.5,
        window_min: 0.05,
        follows: 0.5,
        arm_min: 16.0,
        arm_gaps: 6.0,
        arm_s: 0.03,
        settles: 0.25,
        more_max: 8.0,
        more_likely: 4.0,
        restored: 0.95,
        asks_below: 0.1,
        half: 0.5,
        up: 1.25,
        up_max: 2.0,
        small_up_max: 4.0,
        known_loss: 0.05,
        promising: 1.3,
        loss_pause_rtts: 4.0,
        up_pause_rtts: 8.0,
        pause_max: 8.0,
        verify_s: 3.0,
        verify_rtts: 20.0,
        verify_times: 3.0,
        evidence_kept: 0.7,
        surely_full: 0.25,
        falls_max: 3,
        burst_part: 0.7,
        faster: 1.1,
        permitted: 0.7,
        queued: 1.5,
        high_rtt: 0.05,
        stays: 0.9,
        high_rounds: 4,
        pulse: 0.3,
        pulse_max: 64.0,
        undispersed: 0.93,
        flat_rtt: 0.01,
        flat_s: 0.001,
        flat_rtts: 12.0,
        drain_times: 1.5,
        drain_load_max: 0.8,
        drain_part: 0.25,
        drain_rtts: 4.0,
        overflow_drain_rtts: 12.0,
        fell_rtt: 0.02,
        fell_s: 0.001,
        same_min: 4,
        alone_share: 0.85,
        decisive_share: 0.3,
        full_loss: 0.75,
        train_loses_more: 0.2,
        judged_min: 12.0,
        start_min: 14.0,
        suspect_loss: 0.1,
        train_clean: 0.15,
        clean_min: 3.0,
        clean_part: 1.1,
        start_loses_more: 0.05,
        flat_part: 0.5,
        falling_part: 1.0 / 16.0,
        first_part: 0.25,
        busy_trains: 1.5,
        seen_datagrams: 4.0,
        seen_s: 0.002,
        ours_max: 1.75,
        lasting_s: 4.0,
        lasting_rtts: 40.0,
        joins: 0.25,
        joined_part: 0.7,
        busy_yields: 0.5,
    };
}

/// The parameters in use.
pub(super) const P: Params = Params::DEFAULT;
