//! What was found fastest, by shape, and the small file that keeps it from one start to the next. Pure but for reading and
//! writing that file.

use std::{fmt::Write as _, fs, io, io::Read as _, path::Path, thread};

use models::semantic::Activation;

use super::{Output, PORTABLE, Problem, Route, WGMMA, library::class_of};
use crate::driver::cublaslt::Algorithm;

/// First line of the file: a reader knows its own format alone.
const HEADER: &str = "tokenmill matrix products 1";
/// Choices that are kept: the oldest give way.
const MOST: usize = 10_000;
/// Bytes that a file of so many has at the most.
const MOST_BYTES: u64 = MOST as u64 * 256;
/// A later candidate must be this much faster than the first to be taken: noise must not decide.
const MARGIN: f64 = 0.98;

/// What the choices depend on: measured elsewhere, or with another library, they mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The device's name.
    pub device: String,
    /// CUDA version of the driver.
    pub driver: i32,
    /// Version of cuBLASLt; 0 where it is missing.
    pub library: usize,
}

/// Who does a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One of this crate's kernels.
    Ours(Route),
    /// The library, by this algorithm.
    Library(Algorithm),
}

/// The fastest of `micros`: the first one (which needs no search) unless another beats it clearly.
pub fn pick(micros: &[f64]) -> Option<usize> {
    let best = (0..micros.len()).min_by(|&a, &b| micros[a].total_cmp(&micros[b]))?;
    Some(if micros[best] < micros[0] * MARGIN { best } else { 0 })
}

/// Choices by problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    stamp: Stamp,
    chosen: Vec<(Problem, Choice)>,
}

impl Stamp {
    /// The name of the file for this device: choices for several devices do not replace one another.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        format!("products-{}.txt", self.device.chars().take(80).map(plain).collect::<String>())
    }
}

impl Choices {
    /// None yet.
    pub fn new(stamp: Stamp) -> Choices {
        Choices { stamp, chosen: Vec::new() }
    }

    /// What they depend on.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// What was chosen for exactly this problem.
    pub fn get(&self, problem: &Problem) -> Option<Choice> {
        self.chosen.iter().find(|(known, _)| known == problem).map(|(_, choice)| *choice)
    }

    /// The choice for the problem that is this one but for the number of its rows, which is in the same class; and that number.
    /// Farther off the rule knows better.
    pub fn like(&self, problem: &Problem) -> Option<(u32, Choice)> {
        let is_like = |known: &Problem| {
            let rows_apart = Problem { rows: problem.rows, ..*known } == *problem;
            rows_apart && class_of(known.rows) == class_of(problem.rows)
        };
        let alike = self.chosen.iter().filter(|(known, _)| is_like(known));
        let nearest = alike.min_by_key(|(known, _)| known.rows.abs_diff(problem.rows));
        nearest.map(|(known, choice)| (known.rows, *choice))
    }

    /// Replaces or adds.
    pub fn set(&mut self, problem: Problem, choice: Choice) {
        self.chosen.retain(|(known, _)| *known != problem);
        if self.chosen.len() == MOST {
            self.chosen.remove(0);
        }
        self.chosen.push((problem, choice));
    }

    /// All of them, in the order they were made.
    pub fn iter(&self) -> impl Iterator<Item = &(Problem, Choice)> {
        self.chosen.iter()
    }

    /// The file's choices, where it was written for this stamp; none where there is no such file, or it says something else.
    pub fn load(path: &Path, stamp: &Stamp) -> Choices {
        let mut text = String::new();
        let read = fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text))
            .ok();
        read.and_then(|_| Choices::parse(&text, stamp))
            .unwrap_or_else(|| Choices::new(stamp.clone()))
    }

    /// Writes the file whole or not at all, and its folder where that is missing.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Neither another process nor another thread of this one writes to it.
        let (process, thread) = (std::process::id(), thread::current().id());
        let unfinished = path.with_extension(format!("{process}-{thread:?}.tmp"));
        let written =
            fs::write(&unfinished, self.text()).and_then(|()| fs::rename(&unfinished, path));
        if written.is_err() {
            // A disk that is full is not made fuller; that it was not there to remove is no news.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn text(&self) -> String {
        let Stamp { device, driver, library } = &self.stamp;
        let mut text = format!("{HEADER}\ndevice {device}\ndriver {driver}\nlibrary {library}\n");
        for (problem, choice) in &self.chosen {
            let Problem { rows, n, k, bias, output, invariant } = problem;
            let (bias, invariant) = (u8::from(*bias), u8::from(*invariant));
            let _ = write!(text, "{rows} {n} {k} {bias} {invariant} {} ", name_of(*output));
            let _ = match choice {
                Choice::Ours(Route::Wgmma(tile)) if tile.turns => {
                    writeln!(text, "turns {}", tile.columns)
                }
                Choice::Ours(Route::Wgmma(tile)) => {
                    writeln!(text, "wgmma {} {} {}", tile.columns, tile.cluster, tile.split)
                }
                Choice::Ours(Route::Portable(tile)) => {
                    writeln!(text, "portable {} {}", tile.size[0], tile.size[1])
                }
                Choice::Ours(Route::Cublaslt) => writeln!(text, "library"),
                Choice::Library(Algorithm { data, workspace }) => {
                    let words: Vec<String> = data.iter().map(|word| format!("{word:x}")).collect();
                    writeln!(text, "algorithm {workspace} {}", words.join(" "))
                }
            };
        }
        text
    }

    fn parse(text: &str, stamp: &Stamp) -> Option<Choices> {
        let mut lines = text.lines();
        let Stamp { device, driver, library } = stamp;
        let wanted = [
            HEADER.to_owned(),
            format!("device {device}"),
            format!("driver {driver}"),
            format!("library {library}"),
        ];
        if wanted.iter().any(|wanted| lines.next() != Some(wanted)) {
            return None;
        }
        let mut choices = Choices::new(stamp.clone());
        for (count, line) in lines.enumerate() {
            if count == MOST {
                return None;
            }
            let (problem, choice) = parse_line(line)?;
            choices.set(problem, choice);
        }
        Some(choices)
    }
}

fn parse_line(line: &str) -> Option<(Problem, Choice)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (head, tail) = words.split_at_checked(6)?;
    let number = |word: &str| word.parse::<u32>().ok();
    let flag = |word: &str| match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let problem = Problem {
        rows: number(head[0])?,
        n: number(head[1])?,
        k: number(head[2])?,
        bias: flag(head[3])?,
        invariant: flag(head[4])?,
        output: OUTPUTS.iter().find(|(name, _)| *name == head[5])?.1,
    };
    let choice = match tail {
        ["library"] => Choice::Ours(Route::Cublaslt),
        ["wgmma", columns, cluster, split] => {
            let wanted = (number(columns)?, number(cluster)?, number(split)?);
            let found = WGMMA
                .iter()
                .find(|tile| !tile.turns && (tile.columns, tile.cluster, tile.split) == wanted);
            Choice::Ours(Route::Wgmma(found?))
        }
        ["turns", columns] => {
            let columns = number(columns)?;
            let found = WGMMA.iter().find(|tile| tile.turns && tile.columns == columns);
            Choice::Ours(Route::Wgmma(found?))
        }
        ["portable", rows, columns] => {
            let size = [number(rows)?, number(columns)?];
            Choice::Ours(Route::Portable(PORTABLE.iter().find(|t| t.size == size)?))
        }
        ["algorithm", workspace, data @ ..] => {
            let words: Option<Vec<u64>> =
                data.iter().map(|word| u64::from_str_radix(word, 16).ok()).collect();
            let data = words?.try_into().ok()?;
            Choice::Library(Algorithm { data, workspace: workspace.parse().ok()? })
        }
        _ => return None,
    };
    Some((problem, choice))
}

const OUTPUTS: [(&str, Output); 6] = [
    ("bf16", Output::Bf16),
    ("f32", Output::F32),
    ("add", Output::AddF32),
    ("silu", Output::GateUp(Activation::Silu)),
    ("gelu-tanh", Output::GateUp(Activation::GeluTanh)),
    ("gelu", Output::GateUp(Activation::GeluErf)),
];

fn name_of(output: Output) -> &'static str {
    let entry = OUTPUTS.iter().find(|(_, known)| *known == output);
    entry.expect("the table holds every output").0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp { device: "NVIDIA H200".to_owned(), driver: 13000, library: 130_100 }
    }

    fn some() -> Choices {
        let mut choices = Choices::new(stamp());
        let plain = Problem::plain(2048, 6144, 4096);
        choices.set(
            plain,
            Choice::Library(Algorithm { data: [1, 0, u64::MAX, 4, 5, 6, 7, 8], workspace: 32 }),
        );
        for (i, (_, output)) in OUTPUTS.into_iter().enumerate() {
            let problem = Problem { output, bias: i % 2 == 0, ..Problem::plain(i as u32, 32, 8) };
            choices.set(problem, Choice::Ours(Route::Wgmma(&WGMMA[[0, 1, 7, 8, 12, 13][i]])));
        }
        choices
            .set(Problem { invariant: true, ..plain }, Choice::Ours(Route::Portable(&PORTABLE[1])));
        choices.set(Problem::plain(3, 8, 8), Choice::Ours(Route::Cublaslt));
        choices
    }

    #[test]
    fn the_first_wins_unless_clearly_beaten() {
        assert_eq!(pick(&[]), None);
        assert_eq!(pick(&[10.0, 9.9, 11.0]), Some(0));
        assert_eq!(pick(&[10.0, 9.0, 8.0, 8.5]), Some(2));
        assert_eq!(pick(&[f64::NAN, 3.0]), Some(0), "nothing is faster than what has no time");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/products.txt");
        assert_eq!(Choices::load(&path, &stamp()), Choices::new(stamp()), "no file, no choices");
        some().save(&path).unwrap();
        assert_eq!(Choices::load(&path, &stamp()), some());
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing unfinished is left"
        );
    }

    #[test]
    fn a_file_of_another_machine_or_format_counts_for_nothing() {
        let text = some().text();
        assert_eq!(Choices::parse(&text, &stamp()), Some(some()));
        for other in [
            Stamp { device: "NVIDIA B200".to_owned(), ..stamp() },
            Stamp { driver: 13010, ..stamp() },
            Stamp { library: 0, ..stamp() },
        ] {
            assert_eq!(Choices::parse(&text, &other), None);
        }
        for (from, to) in [
            ("products 1", "products 2"),
            ("wgmma 128 1 1", "wgmma 128 3 1"),
            ("turns 160", "turns 168"),
            ("algorithm 32 1", "algorithm 32 g"),
            ("algorithm 32 1", "algorithm 32"),
            ("library 130100\n2048", "library 130100\n\n2048"),
            ("2048 6144", "-2048 6144"),
            (" bf16 ", " fp8 "),
        ] {
            let broken = text.replace(from, to);
            assert_ne!(broken, text, "{from}");
            assert_eq!(Choices::parse(&broken, &stamp()), None, "{to}");
        }
    }

    #[test]
    fn a_choice_serves_like_numbers_of_rows_of_the_same_product_and_no_other() {
        let mut choices = Choices::new(stamp());
        let problem = Problem::plain(2048, 6144, 4096);
        let [few, many] = [0, 3].map(|tile| Choice::Ours(Route::Wgmma(&WGMMA[tile])));
        choices.set(Problem { rows: 512, ..problem }, few);
        choices.set(problem, many);
        for (rows, wanted) in [
            (448, None),
            (449, Some((512, few))),
            (512, Some((512, few))),
            (513, None),
            (1792, None),
            (1793, Some((2048, many))),
            (2048, Some((2048, many))),
            (2049, None),
        ] {
            assert_eq!(choices.like(&Problem { rows, ..problem }), wanted, "{rows}");
        }
        for other in [
            Problem { n: 6152, ..problem },
            Problem { bias: true, ..problem },
            Problem { invariant: true, ..problem },
            Problem { output: Output::AddF32, ..problem },
        ] {
            assert_eq!(choices.like(&other), None, "{other:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::create_dir(&path).unwrap();
        assert!(some().save(&path).is_err(), "a folder is in the way");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(some().save(&path.join("x").join("y")).is_ok());
        assert_eq!(Choices::load(&path, &stamp()), Choices::new(stamp()));
    }

    #[test]
    fn a_device_names_its_file_plainly() {
        assert_eq!(stamp().file_name(), "products-nvidia-h200.txt");
        let odd = Stamp { device: "../a b/\n".to_owned(), ..stamp() };
        assert_eq!(odd.file_name(), "products----a-b--.txt");
    }

    #[test]
    fn a_later_choice_replaces_an_earlier_one() {
        let mut choices = some();
        let problem = Problem::plain(2048, 6144, 4096);
        choices.set(problem, Choice::Ours(Route::Wgmma(&WGMMA[0])));
        assert_eq!(choices.get(&problem), Some(Choice::Ours(Route::Wgmma(&WGMMA[0]))));
        assert_eq!(choices.iter().count(), some().iter().count());
        assert_eq!(choices.get(&Problem::plain(1, 1, 8)), None);
    }
}
