//! What is judged of an agent that speaks ACP, as one table. A point that is required decides; one
//! that is not is advice. Each has a rule of its own in `verdict` or `lines`, and the fake agent of
//! the tests has a fault for each.

use crate::verdict::Point;

macro_rules! points {
    ($($rule:ident $id:literal $required:literal $what:literal)+) => {
        /// Which rule a point is judged by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Rule {
            $($rule,)+
        }

        /// Every point with its rule, in the order it is reported.
        pub(super) const RULES: &[(Rule, Point)] = &[
            $((Rule::$rule, Point { id: $id, what: $what, required: $required })),+
        ];

        /// Every point, in the order it is reported.
        pub const POINTS: &[Point] = &[
            $(Point { id: $id, what: $what, required: $required }),+
        ];
    };
}

points! {
    Starts "starts" true "can be started"
    LinesJson "lines.json" true "writes one JSON object per line to its standard output, and nothing else"
    LinesRpc "lines.rpc" true "makes every line a request, a notification or a reply of JSON-RPC 2.0"
    LinesIds "lines.ids" true "answers what it was asked, once, by the id it was asked with"
    LinesMethods "lines.methods" false "uses methods that the protocol has, or that begin with an underscore"
    GreetsVersion "greets.version" true "answers initialize with version 1"
    GreetsName "greets.name" false "says its name and version in agentInfo"
    GreetsDraft "greets.draft" false "answers version 2, which is a draft, with version 1"
    GreetsFuture "greets.future" true "answers an unknown version with a version that it supports"
    SessionOpens "session.opens" true "answers session/new with a sessionId"
    SessionNowhere "session.nowhere" false "refuses a session in a directory that does not exist"
    TurnEnds "turn.ends" true "answers session/prompt with a stopReason of the protocol"
    TurnSays "turn.says" true "says or does something before it ends a turn"
    TurnAgain "turn.again" true "takes a second prompt in the same session"
    TurnLarge "turn.large" true "takes a prompt of half a megabyte in one line"
    TurnUsage "turn.usage" false "reports the tokens of a turn"
    TurnAfter "turn.after" false "sends nothing about a turn after its end"
    UpdatesSession "updates.session" true "names the session of every update"
    UpdatesKinds "updates.kinds" false "sends updates of kinds that the protocol has"
    UpdatesFields "updates.fields" true "gives every update the fields it must have"
    UpdatesCalls "updates.calls" false "announces a tool call before it updates it"
    AsksOptions "asks.options" true "asks for permission with a call and options to choose from"
    AsksOffered "asks.offered" true "asks for no files and terminals, which were not offered"
    AsksAllowed "asks.allowed" true "continues to the end of its turn after its request is allowed"
    AsksDenied "asks.denied" true "ends its turn after its request is denied"
    AsksObeys "asks.obeys" true "does not do what was denied"
    AsksWithdrawn "asks.withdrawn" true "ends the turn with cancelled when it is cancelled while it asks"
    CancelEnds "cancel.ends" true "ends a turn with cancelled when it is cancelled"
    CancelAgain "cancel.again" true "takes another prompt after a turn that was cancelled"
    ErrorsMethod "errors.method" true "refuses a method it does not know with -32601"
    ErrorsParams "errors.params" false "refuses parameters that are wrong with -32602"
    ErrorsSession "errors.session" true "refuses a prompt for a session that it does not have"
    HearsStrangers "hears.strangers" true "passes over notifications it does not know"
    HearsBroken "hears.broken" false "continues after a line that is not JSON"
    LoadOpens "load.opens" true "loads a session again, if it says that it can"
    LoadHistory "load.history" false "sends the history of a session before it is open again"
    LoadAgain "load.again" true "takes a prompt in a session that it loaded"
    LoadUnknown "load.unknown" false "refuses to load a session that it does not have"
    LeavesEof "leaves.eof" false "leaves within five seconds of the end of its input"
    LeavesMidturn "leaves.midturn" false "leaves within five seconds of the end of its input in the middle of a turn"
    LeavesTerm "leaves.term" true "leaves within five seconds of SIGTERM"
}
