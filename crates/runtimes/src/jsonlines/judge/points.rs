//! What is judged, as a table. A point that is required decides; one that is not is advice.

use crate::verdict::Point;

macro_rules! points {
    ($($name:ident $id:literal $required:literal $what:literal)+) => {
        $(pub(super) const $name: Point = Point { id: $id, what: $what, required: $required };)+

        /// Every point, in the order it is reported.
        pub const POINTS: &[Point] = &[$($name),+];
    };
}

points! {
    STARTS "starts" true "can be started"
    OBJECTS "lines.objects" true "writes one JSON object per line, in UTF-8"
    TYPES "lines.types" true "gives every line a type of the protocol"
    FIELDS "lines.fields" true "gives every field the form it must have"
    NEWLINE "lines.newline" false "ends its last line with a newline"
    FLUSH "lines.flush" true "flushes every line as it writes it"
    TASK "calls.task" false "reads its task with read_task"
    IDS "calls.ids" true "gives every call an id of its own"
    TOOLS "calls.tools" false "calls tools that there are"
    COSTS "costs" true "reports costs that can be money"
    ONE_END "end.one" true "ends with exactly one complete or failed"
    LAST "end.last" true "says nothing after its end"
    LEAVES "end.leaves" true "exits by itself after its end"
    EXIT "end.exit" true "exits with 0 after complete"
    STRANGERS "hears.strangers" true "passes over lines it does not know"
    LATE "hears.late" true "waits for answers that come late and in another order"
    REFUSED "hears.refused" false "ends with failed or goes on when a call is refused"
    SPOKEN "hears.spoken" true "takes the messages and interrupts its hello accepts"
    SHUTDOWN "hears.shutdown" true "leaves within five seconds of a shutdown"
    EOF "hears.eof" false "leaves within five seconds of the end of its stdin"
}
