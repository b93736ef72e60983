//! Reading: many threads, each with buffers of its own, positioned reads straight into them.
//!
//! Knows nothing of devices: a [`Sink`] takes what was read and says where the next read may go.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread,
};

use runtime::backend::LoadError;

use super::pieces::Piece;

/// Where pieces go. One for each reading thread.
pub trait Sink {
    /// A buffer of `bytes` bytes that nothing reads any more.
    fn buffer(&mut self, bytes: usize) -> Result<&mut [u8], LoadError>;

    /// Takes `piece`, which was read into the buffer given last.
    fn put(&mut self, piece: &Piece) -> Result<(), LoadError>;

    /// Waits until everything taken is in its place.
    fn finish(&mut self) -> Result<(), LoadError>;
}

/// The files of a checkpoint, open.
#[derive(Debug)]
pub struct WeightFiles {
    files: Vec<(PathBuf, File)>,
}

impl WeightFiles {
    /// Opens them.
    ///
    /// # Errors
    /// One that cannot be opened, or is no regular file.
    pub fn open<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, LoadError> {
        let open = |path: &Path| {
            // Asked before it is opened: opening a FIFO would wait for a writer.
            if !path.metadata()?.is_file() {
                return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
            }
            File::open(path)
        };
        let files = paths.into_iter().map(|path| match open(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => Err(failed(path, None, &error)),
        });
        Ok(WeightFiles { files: files.collect::<Result<_, _>>()? })
    }

    /// Fills `buffer` from `offset` of a file on, for the tensor called `tensor`.
    ///
    /// # Errors
    /// [`LoadError::Io`] that names file and tensor; a file that ends before them has shrunk since its header was read.
    pub fn read(
        &self,
        file: usize,
        offset: u64,
        tensor: &str,
        buffer: &mut [u8],
    ) -> Result<(), LoadError> {
        let (path, file) = self.files.get(file).ok_or_else(|| {
            LoadError::Checkpoint(format!(
                "tensor {tensor} is in file {file} of {}",
                self.files.len()
            ))
        })?;
        file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let length = file.metadata().map_or(0, |metadata| metadata.len());
                let end = offset.saturating_add(buffer.len() as u64);
                let text = format!(
                    "the file has shrunk to {length} bytes since its header was read; {end} are needed"
                );
                failed(path, Some(tensor), &io::Error::new(ErrorKind::UnexpectedEof, text))
            }
            _ => failed(path, Some(tensor), &error),
        })
    }
}

fn failed(path: &Path, tensor: Option<&str>, error: &io::Error) -> LoadError {
    let tensor = tensor.map_or(String::new(), |tensor| format!(", tensor {tensor}"));
    LoadError::Io(io::Error::new(error.kind(), format!("{}{tensor}: {error}", path.display())))
}

/// What a reading thread tells.
enum Message {
    /// A piece was taken.
    Done(usize),
    /// The thread ends early.
    Failed(LoadError),
}

/// Reads every piece and hands it to the sinks, of which `open` makes one for each of `threads` threads, on that thread.
/// `name` gives a piece's tensor. `report` is told of every piece that was taken; where it returns `false` the reading ends
/// with [`LoadError::Cancelled`].
///
/// Whatever happens, all threads have ended and all sinks are dropped when this returns.
pub fn read<S: Sink>(
    files: &WeightFiles,
    pieces: &[Piece],
    threads: usize,
    name: &(impl Fn(&Piece) -> String + Sync),
    open: &(impl Fn() -> Result<S, LoadError> + Sync),
    report: &mut dyn FnMut(&Piece) -> bool,
) -> Result<(), LoadError> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let job = Job { files, pieces, next: &next, stop: &stop };
    thread::scope(|scope| {
        let (sender, messages) = mpsc::channel();
        for _ in 0..threads.clamp(1, pieces.len().max(1)) {
            let (job, sender) = (&job, sender.clone());
            scope.spawn(move || {
                if let Err(error) = open().and_then(|sink| job.run(sink, name, &sender)) {
                    job.stop.store(true, Ordering::Relaxed);
                    // The other end lives until every thread has ended.
                    let _ = sender.send(Message::Failed(error));
                }
            });
        }
        drop(sender);
        let mut ended = Ok(());
        for message in messages {
            match message {
                Message::Done(index) if ended.is_ok() => {
                    if !report(&pieces[index]) {
                        stop.store(true, Ordering::Relaxed);
                        ended = Err(LoadError::Cancelled);
                    }
                }
                Message::Failed(error) if ended.is_ok() => ended = Err(error),
                Message::Done(_) | Message::Failed(_) => {}
            }
        }
        ended
    })
}

/// The work that the threads share.
struct Job<'a> {
    files: &'a WeightFiles,
    pieces: &'a [Piece],
    next: &'a AtomicUsize,
    stop: &'a AtomicBool,
}

impl Job<'_> {
    fn run(
        &self,
        mut sink: impl Sink,
        name: impl Fn(&Piece) -> String,
        done: &Sender<Message>,
    ) -> Result<(), LoadError> {
        while !self.stop.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = self.pieces.get(index) else { break };
            let buffer = sink.buffer(piece.bytes)?;
            self.files.read(piece.file, piece.offset, &name(piece), buffer)?;
            sink.put(piece)?;
            // As above: somebody hears it.
            let _ = done.send(Message::Done(index));
        }
        sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Mutex};

    use super::*;

    /// Keeps what it is given by first element.
    struct Kept<'a> {
        buffer: Vec<u8>,
        seen: &'a Mutex<Vec<(u64, Vec<u8>)>>,
        finished: &'a AtomicUsize,
    }

    impl Sink for Kept<'_> {
        fn buffer(&mut self, bytes: usize) -> Result<&mut [u8], LoadError> {
            self.buffer = vec![0; bytes];
            Ok(&mut self.buffer)
        }

        fn put(&mut self, piece: &Piece) -> Result<(), LoadError> {
            if piece.first == 13_000 {
                return Err(LoadError::Option("full".into()));
            }
            self.seen.lock().unwrap().push((piece.first, self.buffer.clone()));
            Ok(())
        }

        fn finish(&mut self) -> Result<(), LoadError> {
            self.finished.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    fn pieces(count: u64, bytes: usize) -> Vec<Piece> {
        let piece = |index: u64| Piece {
            weight: 0,
            first: index * bytes as u64,
            elements: bytes as u64,
            file: 0,
            offset: 16 + index * bytes as u64,
            bytes,
        };
        (0..count).map(piece).collect()
    }

    struct Outcome {
        ended: Result<(), LoadError>,
        seen: Vec<(u64, Vec<u8>)>,
        reported: usize,
        finished: usize,
    }

    /// Reads `pieces` of a file of `length` bytes, cancelled after `most` reports.
    fn run(length: usize, pieces: &[Piece], threads: usize, most: usize) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.safetensors");
        fs::write(&path, (0..length).map(|i| (i * 7 + i / 251) as u8).collect::<Vec<_>>()).unwrap();
        let files = WeightFiles::open([path.as_path()]).unwrap();
        let (seen, finished) = (Mutex::default(), AtomicUsize::new(0));
        let mut reported = 0;
        let open = || Ok(Kept { buffer: Vec::new(), seen: &seen, finished: &finished });
        let ended = read(&files, pieces, threads, &|_| "wq".to_owned(), &open, &mut |_| {
            reported += 1;
            reported <= most
        });
        let seen = seen.into_inner().unwrap();
        Outcome { ended, seen, reported, finished: finished.into_inner() }
    }

    #[test]
    fn every_piece_arrives_once_with_its_bytes() {
        for threads in [1, 4, 64] {
            let Outcome { ended, mut seen, reported, finished } =
                run(16 + 40 * 300, &pieces(40, 300), threads, usize::MAX);
            ended.unwrap();
            assert_eq!((seen.len(), reported, finished), (40, 40, threads.min(40)));
            seen.sort();
            for ((first, bytes), index) in seen.into_iter().zip(0..) {
                assert_eq!(first, index * 300);
                let at = 16 + first as usize;
                let wanted: Vec<u8> = (at..at + 300).map(|i| (i * 7 + i / 251) as u8).collect();
                assert_eq!(bytes, wanted);
            }
        }
    }

    #[test]
    fn nothing_to_read_is_no_error() {
        let outcome = run(0, &[], 8, 0);
        assert!(outcome.ended.is_ok() && outcome.seen.is_empty());
    }

    #[test]
    fn a_file_that_shrank_is_told_with_its_tensor_and_both_lengths() {
        let text = run(16 + 39 * 300 + 299, &pieces(40, 300), 4, usize::MAX).ended.unwrap_err();
        let text = text.to_string();
        for part in ["w.safetensors, tensor wq", "shrunk to 12015 bytes", "12016 are needed"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_cancelled_reading_ends_and_asks_no_more() {
        let outcome = run(16 + 400 * 10, &pieces(400, 10), 3, 5);
        assert!(matches!(outcome.ended, Err(LoadError::Cancelled)));
        assert_eq!(outcome.reported, 6);
    }

    #[test]
    fn a_sink_that_fails_ends_the_reading() {
        let outcome = run(16 + 400 * 1000, &pieces(400, 1000), 3, usize::MAX);
        assert!(matches!(outcome.ended, Err(LoadError::Option(text)) if text == "full"));
        assert!(outcome.seen.len() < 399);
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let text = WeightFiles::open([dir.path()]).unwrap_err().to_string();
        assert!(text.contains("not a regular file"), "{text}");
    }
}
