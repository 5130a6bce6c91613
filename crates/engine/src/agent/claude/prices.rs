//! What a model call costs by the list prices of its provider: for calls whose cost Claude no longer tells.

use raymond_flow::money::Usd;

use super::event::ClaudeUsage;

/// The prices of a model for a million tokens.
struct Prices {
    input: Usd,
    output: Usd,
    cache_read: Usd,
}

/// The prices of models by a part of their names, the first that fits: what Claude Code 2.1.328 counts.
const PRICES: [(&str, Prices); 10] = [
    ("fable", cents(800, 4000, 20)),
    ("opus-5-5", cents(400, 2000, 20)),
    ("opus", cents(500, 2500, 50)),
    ("sonnet-5-5", cents(200, 1000, 10)),
    ("sonnet-5", cents(200, 1000, 20)),
    ("sonnet", cents(300, 1500, 30)),
    ("haiku-5-5", cents(10, 50, 1)),
    ("3-5-haiku", cents(80, 400, 8)),
    ("haiku", cents(100, 500, 10)),
    // Any other: Claude counts as much for models that it does not know.
    ("", cents(400, 2000, 20)),
];

const fn cents(input: u64, output: u64, cache_read: u64) -> Prices {
    const fn usd(cents: u64) -> Usd {
        Usd::from_billionths(cents * 10_000_000)
    }
    Prices { input: usd(input), output: usd(output), cache_read: usd(cache_read) }
}

/// What a call of `model` with this usage costs.
pub(super) fn cost(model: &str, usage: &ClaudeUsage) -> Usd {
    let known = PRICES.iter().find(|(part, _)| model.contains(part));
    let Some((_, prices)) = known else { return Usd::ZERO };
    // Written to the cache for five minutes, a token costs a quarter more than without the cache, for an hour twice as much.
    let for_hour = usage.cache_creation.for_hour.min(usage.cache_write);
    let quarters = 5 * (usage.cache_write - for_hour) + 8 * for_hour;
    prices.input.for_millionths(usage.input)
        + prices.output.for_millionths(usage.output)
        + prices.cache_read.for_millionths(usage.cache_read)
        + prices.input.divided_by(4).for_millionths(quarters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_costs_what_claude_counts_for_it() {
        let usage: ClaudeUsage = serde_json::from_str(
            r#"{"input_tokens":1000,"output_tokens":50,"cache_read_input_tokens":10000,
                "cache_creation_input_tokens":400,"cache_creation":{"ephemeral_1h_input_tokens":200}}"#,
        )
        .unwrap();
        for (model, dollars) in [
            ("claude-sonnet-4-6", 0.003 + 0.000_75 + 0.003 + 0.000_75 + 0.001_2),
            ("claude-sonnet-5-5", 0.002 + 0.000_5 + 0.001 + 0.000_5 + 0.000_8),
            ("us.anthropic.claude-haiku-4-5-v1:0", 0.001 + 0.000_25 + 0.001 + 0.000_25 + 0.000_4),
            ("a-new-one", 0.004 + 0.001 + 0.002 + 0.001 + 0.001_6),
        ] {
            assert_eq!(Some(cost(model, &usage)), Usd::from_dollars(dollars), "{model}");
        }
    }
}
