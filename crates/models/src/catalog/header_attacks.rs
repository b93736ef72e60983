//! Headers that lie, one test each, and a fuzz target for the lies that nobody thought of.

use super::*;

/// A file: its header, and as many bytes of data.
struct Forged {
    bytes: Vec<u8>,
    file_len: u64,
}

fn forged(header: &str, data: u64) -> Forged {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let file_len = bytes.len() as u64 + data;
    Forged { bytes, file_len }
}

fn parse(file: &Forged) -> Result<Vec<HeaderTensor>, Vec<Finding>> {
    parse_header(&file.bytes, file.file_len)
}

/// The text of everything that is wrong with a header in front of `data` bytes.
fn refusal(header: &str, data: u64) -> String {
    let findings = parse(&forged(header, data)).expect_err("the header lies");
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    lines.join("\n")
}

/// One tensor `a` with this description.
fn one(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
}

#[test]
fn an_honest_header_is_read_in_the_order_of_the_file() {
    let header = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"F32","shape":[],"data_offsets":[8,12]},
        "a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},
        "empty":{"dtype":"F16","shape":[0,7],"data_offsets":[12,12]}}   "#;
    let file = forged(header, 12);
    let tensors = parse(&file).unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "empty"]);
    assert_eq!(tensors[0].offset, file.file_len - 12);
    assert_eq!(tensors[0].shape, [2, 2]);
    assert_eq!((tensors[1].shape.len(), tensors[1].bytes), (0, 4));
}

#[test]
fn a_file_too_short_for_a_length() {
    let file = Forged { bytes: vec![1, 0, 0], file_len: 3 };
    assert!(parse(&file).unwrap_err()[0].message.contains("is 3 bytes long"));
}

#[test]
fn a_length_beyond_the_format_s_limit() {
    let file = Forged { bytes: u64::MAX.to_le_bytes().to_vec(), file_len: u64::MAX };
    assert!(
        parse(&file).unwrap_err()[0].message.contains("a header of 18446744073709551615 bytes")
    );
}

#[test]
fn a_length_beyond_the_file() {
    let file = Forged { bytes: 100u64.to_le_bytes().to_vec(), file_len: 50 };
    let message = &parse(&file).unwrap_err()[0].message;
    assert_eq!(message, "claims a header of 100 bytes, but is 50 bytes long");
}

#[test]
fn a_file_that_ends_within_the_header() {
    let mut file = forged(&one("U8", "[1]", "[0,1]"), 1);
    file.bytes.truncate(20);
    assert!(parse(&file).unwrap_err()[0].message.contains("cut short"));
}

#[test]
fn a_header_that_is_no_object() {
    assert!(refusal("[]", 0).contains("does not begin with {"));
    assert!(refusal(" {}", 0).contains("does not begin with {"));
    assert!(refusal("{\"a\":", 0).contains("not valid JSON"));
    assert!(refusal("{}x", 0).contains("not valid JSON"));
}

#[test]
fn a_header_nested_a_hundred_thousand_deep() {
    let header = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(refusal(&header, 0).contains("not valid JSON"));
    let closed = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(!refusal(&closed, 0).is_empty());
}

#[test]
fn a_name_that_is_there_twice() {
    let entry = r#""a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    assert!(refusal(&format!("{{{entry},{entry}}}"), 1).contains("\"a\" is there twice"));
}

#[test]
fn a_key_of_an_entry_that_is_there_twice_or_unknown() {
    let twice = r#"{"a":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,1]}}"#;
    assert!(refusal(twice, 1).contains("duplicate field `dtype`"));
    let unknown = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}"#;
    assert!(refusal(unknown, 1).contains("unknown field `x`"));
}

#[test]
fn a_type_that_nobody_knows() {
    assert!(refusal(&one("BF17", "[1]", "[0,2]"), 2).contains("unknown data type \"BF17\""));
    assert!(refusal(&one("bfloat16", "[1]", "[0,2]"), 2).contains("headers spell \"BF16\""));
}

#[test]
fn a_shape_whose_size_overflows() {
    let shape = "[4294967296,4294967296,16]";
    assert!(refusal(&one("U8", shape, "[0,0]"), 0).contains("overflows"));
    // A zero does not excuse what stands before it: the product is taken from the left.
    let excused = "[9223372036854775807,9223372036854775807,0]";
    assert!(refusal(&one("U8", excused, "[0,0]"), 0).contains("overflows"));
}

#[test]
fn a_shape_with_numbers_that_are_no_sizes() {
    for shape in ["[-1]", "[1.5]", "[1e3]", "[\"1\"]", "[18446744073709551616]", "null"] {
        let text = refusal(&one("U8", shape, "[0,1]"), 1);
        assert!(text.contains("a: is not described as a tensor"), "{shape}: {text}");
    }
}

#[test]
fn a_shape_of_nine_dimensions() {
    assert!(refusal(&one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1).contains("9 dimensions"));
}

#[test]
fn a_range_that_does_not_hold_the_shape() {
    let text = refusal(&one("BF16", "[2,2]", "[0,7]"), 7);
    assert_eq!(text, "a: has the shape [2, 2] of BF16, 8 bytes, but the range 0..7 of 7 bytes");
}

#[test]
fn a_range_that_ends_before_it_begins() {
    assert!(refusal(&one("U8", "[1]", "[2,1]"), 2).contains("ends before it begins"));
}

#[test]
fn a_range_beyond_the_file() {
    assert!(refusal(&one("U8", "[9]", "[0,9]"), 8).contains("holds only 8 bytes of data"));
    let huge = format!("[{},{}]", u64::MAX - 1, u64::MAX);
    assert!(refusal(&one("U8", "[1]", &huge), 8).contains("holds only 8 bytes of data"));
}

#[test]
fn ranges_that_overlap_leave_holes_or_end_early() {
    let two = |first: &str, second: &str| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{first}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
        )
    };
    assert!(refusal(&two("[0,4]", "[3,7]"), 7).contains("b: overlaps a by 1 bytes"));
    assert!(refusal(&two("[0,4]", "[0,4]"), 4).contains("overlaps a by 4 bytes"));
    assert!(refusal(&two("[0,4]", "[5,9]"), 9).contains("b: leaves 1 unused bytes after a"));
    assert!(
        refusal(&two("[1,5]", "[5,9]"), 9).contains("a: leaves 1 unused bytes after the header")
    );
    assert!(refusal(&two("[0,4]", "[4,8]"), 9).contains("has 1 bytes after its last tensor"));
}

#[test]
fn metadata_that_is_no_map_of_strings() {
    assert!(refusal(r#"{"__metadata__":{"a":1}}"#, 0).contains("is no map of strings"));
}

#[test]
fn a_name_of_a_megabyte() {
    let name = "x".repeat(1 << 20);
    let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
    let text = refusal(&header, 1);
    assert!(text.contains("a name of 1048576 bytes") && text.len() < 200, "{}", text.len());
}

#[test]
fn a_thousand_lies_are_told_in_a_few_lines() {
    let entries: Vec<String> = (0..1000)
        .map(|index| format!(r#""t{index}":{{"dtype":"?","shape":[1],"data_offsets":[0,1]}}"#))
        .collect();
    let text = refusal(&format!("{{{}}}", entries.join(",")), 1);
    assert_eq!(text.lines().count(), MAX_FINDINGS + 1);
    assert!(text.ends_with("and 984 more findings in this header"), "{text}");
}

/// What holds for every header that is not refused.
fn assert_sound(bytes: &[u8], file_len: u64) {
    let Ok(tensors) = parse_header(bytes, file_len) else { return };
    let length = u64::from_le_bytes(bytes[..PREFIX].try_into().unwrap());
    let mut covered = PREFIX as u64 + length;
    for tensor in &tensors {
        assert_eq!(tensor.offset, covered);
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(tensor.bytes, (elements * tensor.dtype.size()) as u64);
        covered += tensor.bytes;
    }
    assert_eq!(covered, file_len);
}

#[test]
fn every_change_of_one_byte_is_refused_or_still_sound() {
    let header = r#"{"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}"#;
    let Forged { mut bytes, file_len } = forged(header, 9);
    for place in 0..bytes.len() {
        let honest = bytes[place];
        for byte in 0..=255 {
            bytes[place] = byte;
            assert_sound(&bytes, file_len);
        }
        bytes[place] = honest;
    }
}

#[test]
fn whatever_the_bytes_are_the_answer_is_sound() {
    bolero::check!().with_type::<(Vec<u8>, u16)>().for_each(|(noise, data)| {
        assert_sound(noise, noise.len() as u64 + u64::from(*data));
        let mut framed = (noise.len() as u64 + 1).to_le_bytes().to_vec();
        framed.push(b'{');
        framed.extend(noise);
        assert_sound(&framed, framed.len() as u64 + u64::from(*data));
    });
}

#[test]
fn whatever_a_header_claims_the_answer_is_sound() {
    type Claim = (u8, Vec<u8>, i8, u8);
    bolero::check!().with_type::<(Vec<Claim>, i8)>().for_each(|(claims, slack)| {
        let types = ["U8", "BF16", "F32", "I64", "X"];
        let mut end = 0_i64;
        let mut entries = Vec::new();
        for (index, (dtype, shape, shift, name)) in claims.iter().enumerate() {
            let dtype = types[*dtype as usize % types.len()];
            let size = dtype.parse::<DType>().map_or(1, |dtype| dtype.size()) as i64;
            let shape: Vec<i64> = shape.iter().map(|size| i64::from(size % 4)).collect();
            let begin = end + i64::from(shift / 64);
            end = begin + shape.iter().product::<i64>() * size;
            let name = if *name > 250 { 0 } else { index };
            entries.push(format!(
                r#""t{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
            ));
        }
        let header = format!("{{{}}}", entries.join(","));
        let data = (end + i64::from(slack / 64)).max(0) as u64;
        let file = forged(&header, data);
        assert_sound(&file.bytes, file.file_len);
    });
}
