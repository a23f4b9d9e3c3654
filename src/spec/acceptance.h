// Which drafted tokens stand: pure functions. `choice` answers for the target, row by row.
//
// Row t of a verify pass holds the target's word on the token after drafted[0..t). A block of n drafts has n + 1 rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/token_choice.h"

namespace strobe::spec {

// The tokens a step emits: at each row the token that plain decoding would choose there; drafts stand as long as they
// are it. So a text is, token for token, that of plain decoding: the most likely tokens, or for requests that sample
// what their seed draws at each position (kernel/draw_law.h). A draft d is then accepted with probability p(d), as
// often as by the exact rule for a proposal that is one point (Leviathan et al., arXiv 2211.17192, with q one-hot), and
// what stands in its place otherwise has the distribution of the rest; but where blocks begin, and whether there are
// any, changes no text.
[[nodiscard]] std::vector<int32_t> accept(const engine::TokenChoice& choice, std::span<const int32_t> drafted);

// What a stepper accepts by: accept() above. Tests put a wrong rule in its place, to see that they would notice.
using AcceptRule = std::vector<int32_t> (*)(const engine::TokenChoice& choice, std::span<const int32_t> drafted);

// What a sequence gets from a step: its tokens, and their log probabilities when it asks. `rows`: what the target says
// at the rows of its block.
[[nodiscard]] engine::StepOutput choose_tokens(const engine::StepSequence& sequence, const engine::RowLogits& rows,
                                               std::span<const int32_t> drafted, AcceptRule rule);

// The same from tokens that were drawn row by row (kernel::DrawTokens): a draft stands where the draw is that draft.
[[nodiscard]] engine::StepOutput accept_drawn(std::span<const int32_t> drawn, std::span<const int32_t> drafted);

}  // namespace strobe::spec
