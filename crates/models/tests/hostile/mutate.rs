//! Changes to a JSON document that keep it JSON.

use serde_json::{Value, json};

/// A way to one value: keys of objects, and indices of lists as text.
pub type Place = Vec<String>;

/// What a value is replaced with: each kind, and numbers at the edges of what is read.
pub fn values() -> Vec<Value> {
    let numbers = json!([
        0,
        -1,
        1,
        2,
        3,
        5,
        7,
        33,
        255,
        1024,
        4096,
        65_536,
        262_144,
        1_048_576,
        16_777_216,
        1_073_741_824,
        4_294_967_295_u64,
        4_294_967_296_u64,
        i64::MIN,
        i64::MAX,
        u64::MAX,
        -0.0,
        0.5,
        0.999,
        1.5,
        1e-9,
        1e-38,
        1e-40,
        1e-308,
        1e15,
        1e38,
        1e39,
        1e308,
        -1e308
    ]);
    let others = json!([
        null, true, false, "", "x", "silu", "gelu", "yarn", "longrope", "linear", "llama3",
        "dynamic", "full_attention", [], [0], [1.5, 2.5], ["sliding_attention"], {}, {"a": 1},
        {"rope_type": "yarn"}, {"rope_type": "yarn", "factor": 0.5, "beta_fast": 1, "beta_slow": 1},
        {"rope_type": "yarn", "factor": 1e38, "mscale": 1e38, "mscale_all_dim": 1e-38},
        {"rope_type": "linear", "factor": 1e-38},
        {"rope_type": "llama3", "factor": 1e38, "low_freq_factor": 1.0, "high_freq_factor": 1.000_000_001},
        {"rope_type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 1},
        {"rope_type": "longrope", "short_factor": [1e-38], "long_factor": [1e38]},
        {"full_attention": {}, "sliding_attention": {"rope_theta": 1.0}}
    ]);
    [numbers, others].iter().flat_map(|list| list.as_array().unwrap().clone()).collect()
}

/// Every place of `value`, in order, that `enter` lets it into.
pub fn places(value: &Value, enter: &dyn Fn(&[String]) -> bool) -> Vec<Place> {
    let mut found = Vec::new();
    walk(value, enter, &mut Vec::new(), &mut found);
    found
}

fn walk(
    value: &Value,
    enter: &dyn Fn(&[String]) -> bool,
    place: &mut Place,
    found: &mut Vec<Place>,
) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, child)| (key.clone(), child)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, v)| (at.to_string(), v)).collect(),
        _ => return,
    };
    for (key, child) in children {
        place.push(key);
        if enter(place) {
            found.push(place.clone());
            walk(child, enter, place, found);
        }
        place.pop();
    }
}

/// `root` with the value at `place` replaced; `None` takes it away. Nothing happens where the place is gone by now.
pub fn put(root: &mut Value, place: &[String], value: Option<Value>) {
    let [parents @ .., last] = place else { return };
    let mut parent = root;
    for key in parents {
        let child = match parent {
            Value::Object(map) => map.get_mut(key),
            Value::Array(list) => key.parse().ok().and_then(|at: usize| list.get_mut(at)),
            _ => None,
        };
        let Some(child) = child else { return };
        parent = child;
    }
    match (parent, value) {
        (Value::Object(map), Some(value)) => drop(map.insert(last.clone(), value)),
        (Value::Object(map), None) => drop(map.shift_remove(last)),
        (Value::Array(list), value) => {
            let Some(at) = last.parse().ok().filter(|at: &usize| *at < list.len()) else { return };
            match value {
                Some(value) => list[at] = value,
                None => drop(list.remove(at)),
            }
        }
        _ => {}
    }
}

/// Several changes, chosen by numbers: which place, and by which value.
pub fn change(root: &mut Value, places: &[Place], values: &[Value], choices: &[(u16, u8)]) {
    for (place, value) in choices {
        let place = &places[usize::from(*place) % places.len()];
        // One more than there are values: the place is taken away.
        let value = values.get(usize::from(*value) % (values.len() + 1)).cloned();
        put(root, place, value);
    }
}
