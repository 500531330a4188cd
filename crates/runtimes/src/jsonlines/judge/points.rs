//! What is judged, as a table: without a point of the kind `Run` Ostler cannot run the agent, one of
//! the kind `Spec` is required by the specification, and `Advice` decides nothing.

use crate::verdict::{Need, Point};

macro_rules! points {
    ($($name:ident $id:literal $need:ident $what:literal)+) => {
        $(pub(super) const $name: Point = Point::new($id, $what, Need::$need);)+

        /// Every point, in the order it is reported.
        pub const POINTS: &[Point] = &[$($name),+];
    };
}

points! {
    STARTS "starts" Run "can be started"
    OBJECTS "lines.objects" Spec "writes one JSON object per line, in UTF-8"
    TYPES "lines.types" Spec "gives every line a type of the protocol"
    FIELDS "lines.fields" Spec "gives every field the form it must have"
    NEWLINE "lines.newline" Advice "ends its last line with a newline"
    FLUSH "lines.flush" Run "flushes every line as it writes it"
    TASK "calls.task" Advice "reads its task with read_task"
    IDS "calls.ids" Spec "gives every call an id of its own"
    TOOLS "calls.tools" Advice "calls tools that there are"
    COSTS "costs" Spec "reports costs that can be money"
    ENDS "end.said" Run "ends with complete or failed"
    ONE_END "end.one" Spec "has no second end"
    LAST "end.last" Spec "says nothing after its end"
    LEAVES "end.leaves" Spec "exits by itself after its end"
    EXIT "end.exit" Spec "exits with 0 after complete"
    STRANGERS "hears.strangers" Spec "passes over lines it does not know"
    LATE "hears.late" Run "waits for answers that come late and in another order"
    REFUSED "hears.refused" Advice "ends with failed or goes on when a call is refused"
    SPOKEN "hears.spoken" Spec "takes the messages and interrupts its hello accepts"
    RESUMED "hears.resume" Spec "ends with complete or failed when it does not know the conversation to resume"
    SHUTDOWN "hears.shutdown" Spec "leaves within five seconds of a shutdown"
    EOF "hears.eof" Advice "leaves within five seconds of the end of its stdin"
}
