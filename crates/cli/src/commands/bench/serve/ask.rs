//! Requests as servers read them.

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::{
    args::{DrawFlags, Endpoint},
    commands::bench::{
        client::Ask,
        workload::{Content, Item, Role},
    },
};

/// What all requests of a bench have in common.
pub struct Form<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Which of the API's ways is taken.
    pub endpoint: Endpoint,
    /// How tokens are drawn.
    pub draw: &'a DrawFlags,
    /// The first request's seed; each further one has the next.
    pub first_seed: Option<u64>,
    /// The answers may not end before they are as long as asked.
    pub ignore_eos: bool,
}

impl Form<'_> {
    /// The requests of all chains, made before the clock starts.
    pub fn asks(&self, chains: &[Vec<Item>]) -> Vec<Vec<Ask>> {
        let mut seed = self.first_seed;
        let mut ask = |item: &Item| {
            let ask = self.ask(item, seed);
            seed = seed.map(|seed| seed.wrapping_add(1));
            ask
        };
        chains.iter().map(|chain| chain.iter().map(&mut ask).collect()).collect()
    }

    fn ask(&self, item: &Item, seed: Option<u64>) -> Ask {
        let mut body = json!({
            "model": self.model, "max_tokens": item.output_tokens,
            "temperature": self.draw.temperature_decimal(),
            "stream": true, "stream_options": { "include_usage": true },
        });
        let path = match self.endpoint {
            Endpoint::Completions => {
                body["prompt"] = whole(&item.prompt);
                "/v1/completions"
            }
            Endpoint::Chat => {
                body["messages"] = item.prompt.iter().map(message).collect();
                "/v1/chat/completions"
            }
        };
        let optional = [
            ("top_p", self.draw.top_p_decimal().map(Value::from)),
            ("top_k", self.draw.top_k.map(Value::from)),
            ("seed", seed.map(Value::from)),
            ("ignore_eos", self.ignore_eos.then_some(Value::Bool(true))),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        let is_ids = matches!(item.prompt.first(), Some((_, Content::Ids(_))));
        Ask {
            path,
            body: Bytes::from(body.to_string()),
            prompt_units: item.prompt_units,
            is_ids: is_ids && self.endpoint == Endpoint::Completions,
            output_tokens: item.output_tokens,
            is_exact: self.ignore_eos,
        }
    }
}

/// All pieces of a prompt in one.
fn whole(prompt: &[(Role, Content)]) -> Value {
    let (mut ids, mut words): (Vec<u32>, Vec<&str>) = (Vec::new(), Vec::new());
    for (_, content) in prompt {
        match content {
            Content::Ids(piece) => ids.extend(piece),
            Content::Words(piece) => words.push(piece),
        }
    }
    if words.is_empty() { ids.into() } else { words.join(" ").into() }
}

fn message((role, content): &(Role, Content)) -> Value {
    let content: Value = match content {
        Content::Ids(ids) => ids.clone().into(),
        Content::Words(words) => words.clone().into(),
    };
    json!({ "role": role.name(), "content": content })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(form: &Form<'_>, items: &[Item]) -> Vec<Value> {
        let asks = form.asks(&[items.to_vec()]);
        asks[0].iter().map(|ask| serde_json::from_slice(&ask.body).unwrap()).collect()
    }

    fn item(pieces: [Content; 2]) -> Item {
        let [system, user] = pieces;
        let prompt = vec![(Role::System, system), (Role::User, user)];
        Item { prompt, prompt_units: 3, output_tokens: 7 }
    }

    #[test]
    fn a_request_says_what_was_asked_for_and_nothing_else() {
        let draw = DrawFlags { temperature: 0.0, top_p: None, top_k: None };
        let (model, endpoint) = ("m", Endpoint::Completions);
        let form = Form { model, endpoint, draw: &draw, first_seed: None, ignore_eos: false };
        let ids = item([Content::Ids(vec![1, 2]), Content::Ids(vec![3])]);
        let wanted = json!({
            "model": "m", "max_tokens": 7, "temperature": 0.0, "stream": true,
            "stream_options": { "include_usage": true }, "prompt": [1, 2, 3],
        });
        assert_eq!(bodies(&form, &[ids]), [wanted]);
    }

    #[test]
    fn a_chat_is_sent_as_messages_with_all_that_was_given() {
        let draw = DrawFlags { temperature: 0.8, top_p: Some(0.95), top_k: Some(20) };
        let (model, endpoint) = ("m", Endpoint::Chat);
        let form = Form { model, endpoint, draw: &draw, first_seed: Some(5), ignore_eos: true };
        let words = item([Content::Words("be brief".into()), Content::Words("hello".into())]);
        let bodies = bodies(&form, &[words.clone(), words]);
        let wanted = json!({
            "model": "m", "max_tokens": 7, "temperature": 0.8, "stream": true,
            "stream_options": { "include_usage": true },
            "messages": [
                { "role": "system", "content": "be brief" }, { "role": "user", "content": "hello" },
            ],
            "top_p": 0.95, "top_k": 20, "seed": 5, "ignore_eos": true,
        });
        assert_eq!((&bodies[0], &bodies[1]["seed"]), (&wanted, &6.into()));
    }
}
