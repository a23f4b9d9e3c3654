// Which drafted tokens stand: pure functions. `choice` answers for the target, row by row.
//
// Row t of a verify pass holds the target's word on the token after drafted[0..t). A block of n drafts has n + 1 rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/token_choice.h"

namespace strobe::spec {

// The tokens a step emits: the accepted drafts, then one of the target's own.
//
// Greedy: drafts stand as long as each equals the target's best token; the last token is the best at the first row that
// disagrees (or after the last draft). Equal, token for token, to plain decoding.
//
// Sampling (the exact rule for a proposal that is one point; Leviathan et al., arXiv 2211.17192, with q one-hot): draft
// d at row t stands with probability p_t(d); at the first that does not, the token is drawn from p_t without d. Every
// emitted token has exactly the distribution of plain decoding.
[[nodiscard]] std::vector<int32_t> accept(const engine::TokenChoice& choice, const engine::SamplingParams& sampling,
                                          std::span<const int32_t> drafted);

// What a stepper accepts by: accept() above. Tests put a wrong rule in its place, to see that they would notice.
using AcceptRule = std::vector<int32_t> (*)(const engine::TokenChoice& choice, const engine::SamplingParams& sampling,
                                            std::span<const int32_t> drafted);

// What a sequence gets from a step: its tokens, and their log probabilities when it asks. `rows`: what the target says
// at the rows of its block.
[[nodiscard]] engine::StepOutput choose_tokens(const engine::StepSequence& sequence, const engine::RowLogits& rows,
                                               std::span<const int32_t> drafted, AcceptRule rule);

// The same from tokens that were drawn row by row (kernel::DrawTokens): a draft stands where the draw is that draft.
[[nodiscard]] engine::StepOutput accept_drawn(std::span<const int32_t> drawn, std::span<const int32_t> drafted);

}  // namespace strobe::spec
