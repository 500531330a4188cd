//! What can be broken on purpose: one flaw of the store or of the driver at a time. An instrument
//! that cannot show 1 proves nothing; the table in the tests says which promise each of these breaks.

use store::model::Flaw;

/// One thing done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// A verb of the store does not keep its promise.
    Store(Flaw),
    /// A renewal whose answer came when the lease was over is taken for good.
    LateRenewal,
    /// The lease is counted from when its renewal was answered.
    LeaseFromAnswer,
    /// The lease is counted on the wall clock.
    WallLease,
    /// Effects are done before their Batch is durable.
    EffectFirst,
    /// What a durable Batch asks for is done though the lease is over.
    DoneUnleased,
    /// Whoever takes over launches once more.
    LaunchAgain,
    /// Whoever takes over says once more what was said.
    SayAgain,
    /// Whoever takes over repeats every call.
    CallAgain,
    /// Whoever takes over hears the spool from its beginning.
    HearAgain,
    /// Whoever reaped a run takes it under the fence that its row has by now.
    FenceFromRow,
    /// Wishes are acted on and left in the inbox.
    WishesLeft,
    /// Nobody reads the inbox.
    WishesUnread,
    /// A keeper starts its agent when the lease is over.
    LatePlan,
    /// A Batch that may be there is sent again under the next numbers.
    SentAgain,
    /// Whoever takes over numbers effects from the beginning.
    EffectsRenumbered,
    /// What a dead keeper left is not ended.
    AgentLeft,
}

impl Break {
    /// By the word that `--break` takes.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::Store(Flaw::CommitUnfenced), "commit-unfenced"),
        (Self::Store(Flaw::SettleUnfenced), "settle-unfenced"),
        (Self::Store(Flaw::RenewUnfenced), "renew-unfenced"),
        (Self::Store(Flaw::ReapUnfenced), "reap-unfenced"),
        (Self::Store(Flaw::ReapUnseen), "reap-unseen"),
        (Self::Store(Flaw::HeadUnchecked), "head-unchecked"),
        (Self::Store(Flaw::EndUnchecked), "end-unchecked"),
        (Self::Store(Flaw::ClaimUnchecked), "claim-unchecked"),
        (Self::Store(Flaw::MoveUnfenced), "move-unfenced"),
        (Self::Store(Flaw::MoveUnchecked), "move-unchecked"),
        (Self::Store(Flaw::RecallIgnored), "recall-ignored"),
        (Self::Store(Flaw::DueForgotten), "due-forgotten"),
        (Self::Store(Flaw::DoneAgain), "done-again"),
        (Self::Store(Flaw::EventLost), "event-lost"),
        (Self::Store(Flaw::WishKept), "wish-kept"),
        (Self::Store(Flaw::ReserveUnfenced), "reserve-unfenced"),
        (Self::Store(Flaw::ReserveUncounted), "reserve-uncounted"),
        (Self::Store(Flaw::ReservationKept), "reservation-kept"),
        (Self::LateRenewal, "late-renewal"),
        (Self::LeaseFromAnswer, "lease-from-answer"),
        (Self::WallLease, "wall-lease"),
        (Self::EffectFirst, "effect-first"),
        (Self::DoneUnleased, "done-unleased"),
        (Self::LaunchAgain, "launch-again"),
        (Self::SayAgain, "say-again"),
        (Self::CallAgain, "call-again"),
        (Self::HearAgain, "hear-again"),
        (Self::FenceFromRow, "fence-from-row"),
        (Self::WishesLeft, "wishes-left"),
        (Self::WishesUnread, "wishes-unread"),
        (Self::LatePlan, "late-plan"),
        (Self::SentAgain, "sent-again"),
        (Self::EffectsRenumbered, "effects-renumbered"),
        (Self::AgentLeft, "agent-left"),
    ];

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(this, _)| *this)
    }

    pub fn flaw(this: Option<Self>) -> Option<Flaw> {
        match this {
            Some(Self::Store(flaw)) => Some(flaw),
            Some(_) | None => None,
        }
    }
}
