//! What is judged of an agent that speaks ACP, as one table: without a point of the kind `Run`
//! Ostler cannot run the agent, one of the kind `Spec` is required by the specification, and `Advice`
//! decides nothing. Each has a rule of its own in `verdict` or `lines`, and the fake agent of
//! the tests has a fault for each.

use crate::verdict::{Need, Point};

macro_rules! points {
    ($($rule:ident $id:literal $need:ident $what:literal)+) => {
        /// Which rule a point is judged by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Rule {
            $($rule,)+
        }

        /// Every point with its rule, in the order it is reported.
        pub(super) const RULES: &[(Rule, Point)] = &[
            $((Rule::$rule, Point::new($id, $what, Need::$need))),+
        ];

        /// Every point, in the order it is reported.
        pub const POINTS: &[Point] = &[
            $(Point::new($id, $what, Need::$need)),+
        ];
    };
}

points! {
    Starts "starts" Run "can be started"
    LinesJson "lines.json" Spec "writes one JSON object per line to its standard output, and nothing else"
    LinesRpc "lines.rpc" Spec "makes every line a request, a notification or a reply of JSON-RPC 2.0"
    LinesIds "lines.ids" Spec "answers what it was asked, once, by the id it was asked with"
    LinesMethods "lines.methods" Advice "uses methods that the protocol has, or that begin with an underscore"
    GreetsVersion "greets.version" Run "answers initialize with version 1"
    GreetsName "greets.name" Advice "says its name and version in agentInfo"
    GreetsDraft "greets.draft" Advice "answers version 2, which is a draft, with version 1"
    GreetsFuture "greets.future" Spec "answers an unknown version with a version that it supports"
    SessionOpens "session.opens" Run "answers session/new with a sessionId"
    SessionNowhere "session.nowhere" Advice "refuses a session in a directory that does not exist"
    TurnEnds "turn.ends" Run "answers session/prompt with a stopReason of the protocol"
    TurnSays "turn.says" Run "says or does something before it ends a turn"
    TurnAgain "turn.again" Spec "takes a second prompt in the same session"
    TurnLarge "turn.large" Spec "takes a prompt of half a megabyte in one line"
    TurnUsage "turn.usage" Advice "reports the tokens of a turn"
    TurnAfter "turn.after" Advice "sends nothing about a turn after its end"
    UpdatesSession "updates.session" Spec "names the session of every update"
    UpdatesKinds "updates.kinds" Advice "sends updates of kinds that the protocol has"
    UpdatesFields "updates.fields" Spec "gives every update the fields it must have"
    UpdatesCalls "updates.calls" Advice "announces a tool call before it updates it"
    AsksOptions "asks.options" Run "asks for permission with a call and options to choose from"
    AsksOffered "asks.offered" Spec "asks for no files and terminals, which were not offered"
    AsksAllowed "asks.allowed" Run "continues to the end of its turn after its request is allowed"
    AsksDenied "asks.denied" Spec "ends its turn after its request is denied"
    AsksObeys "asks.obeys" Spec "does not do what was denied"
    AsksWithdrawn "asks.withdrawn" Spec "ends the turn with cancelled when it is cancelled while it asks"
    CancelEnds "cancel.ends" Spec "ends a turn with cancelled when it is cancelled"
    CancelAgain "cancel.again" Spec "takes another prompt after a turn that was cancelled"
    ErrorsMethod "errors.method" Spec "refuses a method it does not know with -32601"
    ErrorsParams "errors.params" Advice "refuses parameters that are wrong with -32602"
    ErrorsSession "errors.session" Spec "refuses a prompt for a session that it does not have"
    HearsStrangers "hears.strangers" Spec "passes over notifications it does not know"
    HearsBroken "hears.broken" Advice "continues after a line that is not JSON"
    LoadOpens "load.opens" Spec "loads a session again, if it says that it can"
    LoadHistory "load.history" Advice "sends the history of a session before it is open again"
    LoadAgain "load.again" Spec "takes a prompt in a session that it loaded"
    LoadUnknown "load.unknown" Advice "refuses to load a session that it does not have"
    LeavesEof "leaves.eof" Advice "leaves within five seconds of the end of its input"
    LeavesMidturn "leaves.midturn" Advice "leaves within five seconds of the end of its input in the middle of a turn"
    LeavesTerm "leaves.term" Spec "leaves within five seconds of SIGTERM"
}
