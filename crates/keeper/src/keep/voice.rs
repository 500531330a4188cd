//! What is said to the agent: numbered frames into its stdin, each exactly once.
//!
//! One frame is held at a time; the server sends the next when this one is settled, and a second
//! meanwhile is refused, so that orders behind it are never stuck. A frame counts as said when its
//! last byte is in the pipe, and as dropped when that can no longer happen. Every settlement is a
//! record first and a report second.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::limits::FRAME_BYTES_MAX;
use crate::plan::StdinMode;
use crate::record::{CLOSED, FAREWELL, Kind};
use crate::spool::Spool;
use crate::wire::{Refusal, Report};

pub struct Voice {
    /// Our end of the agent's stdin, until it is closed or broken.
    stdin: Option<OwnedFd>,
    held: Option<Frame>,
    /// Waits behind a held frame that is partly in the pipe.
    farewell: Option<Frame>,
    /// The highest number settled.
    last_said: u32,
    /// Everything from this number on was dropped: nothing is said after a drop.
    dropped_from: Option<u32>,
    broken: bool,
    /// A stop has begun; only the farewell is still said.
    stopping: bool,
    /// Waits behind the farewell: all that may follow it is the closing of the pipe, so that an
    /// agent that obeyed can leave before its grace is over.
    closing: Option<Frame>,
    /// The farewell is in the pipe.
    parted: bool,
}

struct Frame {
    n: u32,
    bytes: Vec<u8>,
    written: usize,
    /// [`CLOSED`] and [`FAREWELL`] of its record.
    flags: u8,
}

impl Frame {
    fn new(n: u32, bytes: Vec<u8>, flags: u8) -> Self {
        Self { n, bytes, written: 0, flags }
    }
}

impl Voice {
    /// With the plan's first frame already held, as number 0.
    pub fn new(stdin: Option<OwnedFd>, mode: StdinMode, first: Option<Vec<u8>>) -> Self {
        let first = match mode {
            StdinMode::Open => first.map(|bytes| Frame::new(0, bytes, 0)),
            StdinMode::Once => Some(Frame::new(0, first.unwrap_or_default(), CLOSED)),
            StdinMode::Null => None,
        };
        Self {
            stdin,
            held: first,
            farewell: None,
            last_said: 0,
            dropped_from: None,
            broken: false,
            stopping: false,
            closing: None,
            parted: false,
        }
    }

    /// Takes frame `n`.
    pub fn say(&mut self, n: u32, bytes: Vec<u8>, spool: &mut Spool) -> Option<Report> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Some(Report::Refused { n, why: Refusal::TooLong });
        }
        self.take(Frame::new(n, bytes, 0), spool)
    }

    /// Takes the closing of stdin, as item `n`.
    pub fn close(&mut self, n: u32, spool: &mut Spool) -> Option<Report> {
        self.take(Frame::new(n, Vec::new(), CLOSED), spool)
    }

    /// Says goodbye, and nothing after it. A frame that is partly in the pipe goes first, for half
    /// a frame would spoil the farewell; one that has not begun is dropped.
    pub fn say_farewell(&mut self, bytes: Vec<u8>, spool: &mut Spool) -> Option<Report> {
        let close = if bytes.is_empty() { CLOSED } else { 0 };
        self.farewell = Some(Frame::new(0, bytes, FAREWELL | close));
        self.stop(spool)
    }

    /// Lets nothing more be taken. Reports the frame that was dropped by it.
    pub fn stop(&mut self, spool: &mut Spool) -> Option<Report> {
        self.stopping = true;
        let unbegun = self.held.take_if(|frame| frame.written == 0)?;
        self.drop_frame(&unbegun, spool)
    }

    /// The agent is gone.
    pub fn end(&mut self, spool: &mut Spool) -> Option<Report> {
        self.stopping = true;
        self.stdin = None;
        self.farewell = None;
        let mut report = None;
        for frame in [self.held.take(), self.closing.take()].into_iter().flatten() {
            // At most one of the two has a number.
            report = self.drop_frame(&frame, spool).or(report);
        }
        report
    }

    /// The pipe to wait for, if there is something to write. While the disk is full only a stop
    /// goes on: its few records can wait in memory.
    pub fn wants_room(&self, spool: &Spool) -> Option<BorrowedFd<'_>> {
        let closing = self.parted && self.closing.is_some();
        let pending = self.held.is_some() || self.farewell.is_some() || closing;
        let stdin = self.stdin.as_ref()?;
        (pending && (self.stopping || !spool.is_blocked())).then(|| stdin.as_fd())
    }

    /// Writes what the pipe has room for. Reports what that settled.
    pub fn write_on(&mut self, spool: &mut Spool) -> Option<Report> {
        let mut report = None;
        while let Some(stdin) = &self.stdin {
            if self.held.is_none() {
                self.held = self.farewell.take();
            }
            if self.held.is_none() && self.parted {
                self.held = self.closing.take();
            }
            let Some(frame) = &mut self.held else { break };
            if frame.written < frame.bytes.len() {
                match rustix::io::write(stdin, &frame.bytes[frame.written..]) {
                    Ok(count) => frame.written += count,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    // The agent has closed its standard input, which the spool records.
                    Err(_) => {
                        spool.append(Kind::StdinBroken, 0, 0, &[]);
                        self.broken = true;
                        return self.end(spool).or(report);
                    }
                }
                continue;
            }
            failpoint::hit(failpoint::Point::FrameSaid);
            let frame = self.held.take().expect("it was held just now");
            // At most one numbered frame is held, so at most one report is due.
            report = self.settle(&frame, spool).or(report);
        }
        report
    }

    pub fn last_said(&self) -> u32 {
        self.last_said
    }

    pub fn held(&self) -> Option<u32> {
        let numbered = self.held.as_ref().filter(|frame| frame.flags & FAREWELL == 0);
        numbered.or(self.closing.as_ref()).map(|frame| frame.n)
    }

    pub fn is_open(&self) -> bool {
        self.stdin.is_some()
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn take(&mut self, frame: Frame, spool: &mut Spool) -> Option<Report> {
        let n = frame.n;
        if n <= self.last_said {
            let dropped = self.dropped_from.is_some_and(|from| n >= from);
            return Some(if dropped { Report::Dropped { n } } else { Report::SaidAck { n } });
        }
        match self.held() {
            Some(held) if held == n => return None,
            Some(_) => return Some(Report::Refused { n, why: Refusal::Busy }),
            None => {}
        }
        let closes = frame.flags & CLOSED != 0;
        if self.stdin.is_none() || (self.stopping && !closes) {
            return self.drop_frame(&frame, spool);
        }
        match self.stopping {
            true => self.closing = Some(frame),
            false => self.held = Some(frame),
        }
        if spool.is_blocked() { None } else { self.write_on(spool) }
    }

    /// The frame is in the pipe.
    fn settle(&mut self, frame: &Frame, spool: &mut Spool) -> Option<Report> {
        if frame.flags & CLOSED != 0 {
            self.stdin = None;
        }
        self.parted |= frame.flags & FAREWELL != 0;
        spool.append(Kind::Said, frame.flags, frame.n, &frame.bytes);
        self.last_said = self.last_said.max(frame.n);
        (frame.flags & FAREWELL == 0).then_some(Report::SaidAck { n: frame.n })
    }

    /// The frame will never be in the pipe, not wholly. A farewell has no number to settle.
    fn drop_frame(&mut self, frame: &Frame, spool: &mut Spool) -> Option<Report> {
        spool.append(Kind::Dropped, frame.flags, frame.n, &[]);
        if frame.flags & FAREWELL != 0 {
            return None;
        }
        self.last_said = self.last_said.max(frame.n);
        self.dropped_from.get_or_insert(frame.n);
        Some(Report::Dropped { n: frame.n })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;
    use crate::spool::Reader;

    struct Scene {
        dir: tempfile::TempDir,
        spool: Spool,
        voice: Voice,
        stdin: Option<OwnedFd>,
    }

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let fd = OwnedFd::from(File::open(dir.path()).unwrap());
            let spool = Spool::create(fd, u64::MAX).unwrap();
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
            Self {
                dir,
                spool,
                voice: Voice::new(Some(write), StdinMode::Open, None),
                stdin: Some(read),
            }
        }

        fn say(&mut self, n: u32, bytes: &[u8]) -> Option<Report> {
            self.voice.say(n, bytes.to_vec(), &mut self.spool)
        }

        fn heard(&self) -> usize {
            let mut buffer = vec![0; 1 << 20];
            rustix::io::read(self.stdin.as_ref().unwrap(), &mut buffer[..]).unwrap_or(0)
        }

        fn records(&self) -> Vec<(Kind, u32, u8)> {
            let mut reader = Reader::open(self.dir.path(), 0).unwrap();
            let mut records = Vec::new();
            while let Some(record) = reader.next().unwrap() {
                records.push((record.kind, record.number, record.flags));
            }
            records
        }
    }

    #[test]
    fn a_number_sent_again_is_acknowledged_and_not_said_again() {
        let mut scene = Scene::new();
        for _ in 0..3 {
            assert_eq!(scene.say(1, b"hi\n"), Some(Report::SaidAck { n: 1 }));
        }
        assert_eq!(scene.heard(), 3);
        assert_eq!(scene.records(), [(Kind::Said, 1, 0)]);
    }

    #[test]
    fn a_frame_is_said_when_its_last_byte_is_in_the_pipe() {
        let mut scene = Scene::new();
        let long = vec![b'x'; 100 << 10];
        assert_eq!(scene.say(1, &long), None, "the pipe holds 64 KiB");
        assert_eq!(scene.say(1, &long), None, "it is held already");
        assert_eq!(scene.say(2, b"x"), Some(Report::Refused { n: 2, why: Refusal::Busy }));
        assert_eq!(scene.records(), []);
        let mut heard = scene.heard();
        assert_eq!(scene.voice.write_on(&mut scene.spool), Some(Report::SaidAck { n: 1 }));
        heard += scene.heard();
        assert_eq!(heard, long.len());
        assert_eq!(scene.records(), [(Kind::Said, 1, 1), (Kind::Said, 1, 0)]);
    }

    #[test]
    fn a_frame_that_is_half_in_the_pipe_goes_before_the_farewell() {
        let mut scene = Scene::new();
        let long = vec![b'x'; 100 << 10];
        scene.say(1, &long);
        assert_eq!(scene.voice.say_farewell(b"bye\n".to_vec(), &mut scene.spool), None);
        assert_eq!(scene.say(2, b"late"), Some(Report::Refused { n: 2, why: Refusal::Busy }));
        let mut heard = scene.heard();
        assert_eq!(scene.voice.write_on(&mut scene.spool), Some(Report::SaidAck { n: 1 }));
        heard += scene.heard();
        assert_eq!(heard, long.len() + 4);
        assert_eq!(scene.say(2, b"late"), Some(Report::Dropped { n: 2 }));
        let ends = [(Kind::Said, 0, FAREWELL), (Kind::Dropped, 2, 0)];
        assert_eq!(scene.records()[2..], ends);
    }

    #[test]
    fn behind_the_farewell_the_input_can_still_be_closed_and_nothing_else() {
        let mut scene = Scene::new();
        scene.voice.stop(&mut scene.spool);
        assert_eq!(scene.say(1, b"late"), Some(Report::Dropped { n: 1 }));
        assert_eq!(scene.voice.close(2, &mut scene.spool), None, "the farewell needs the pipe");
        assert_eq!(scene.voice.close(2, &mut scene.spool), None, "it is held already");
        scene.voice.say_farewell(b"bye\n".to_vec(), &mut scene.spool);
        assert_eq!(scene.voice.write_on(&mut scene.spool), Some(Report::SaidAck { n: 2 }));
        assert_eq!(scene.heard(), 4);
        assert!(!scene.voice.is_open());
        let all = [(Kind::Dropped, 1, 0), (Kind::Said, 0, FAREWELL), (Kind::Said, 2, CLOSED)];
        assert_eq!(scene.records(), all);
    }

    #[test]
    fn an_input_that_was_to_be_closed_behind_a_farewell_that_never_came_is_dropped() {
        let mut scene = Scene::new();
        scene.voice.stop(&mut scene.spool);
        assert_eq!(scene.voice.close(1, &mut scene.spool), None);
        assert_eq!(scene.voice.end(&mut scene.spool), Some(Report::Dropped { n: 1 }));
        assert_eq!(scene.records(), [(Kind::Dropped, 1, CLOSED)]);
    }

    #[test]
    fn a_closed_reader_drops_the_frame_and_all_after_it() {
        let mut scene = Scene::new();
        scene.stdin = None;
        assert_eq!(scene.say(1, b"hi\n"), Some(Report::Dropped { n: 1 }));
        assert_eq!(scene.say(2, b"hi\n"), Some(Report::Dropped { n: 2 }));
        assert_eq!(scene.say(1, b"hi\n"), Some(Report::Dropped { n: 1 }));
        let records = [(Kind::StdinBroken, 0, 0), (Kind::Dropped, 1, 0), (Kind::Dropped, 2, 0)];
        assert_eq!(scene.records(), records);
        assert!(scene.voice.is_broken());
    }

    #[test]
    fn closing_is_an_item_of_the_same_sequence() {
        let mut scene = Scene::new();
        scene.say(1, b"hi\n");
        assert_eq!(scene.voice.close(2, &mut scene.spool), Some(Report::SaidAck { n: 2 }));
        assert_eq!(scene.voice.close(2, &mut scene.spool), Some(Report::SaidAck { n: 2 }));
        assert_eq!(scene.say(3, b"late"), Some(Report::Dropped { n: 3 }));
        let records = [(Kind::Said, 1, 0), (Kind::Said, 2, CLOSED), (Kind::Dropped, 3, 0)];
        assert_eq!(scene.records(), records);
    }
}
