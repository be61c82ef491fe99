#include "tests/runtime/strategies/routing_choices.h"

#include <algorithm>

#include "sim/program/blocks/layer/context_parallel.h"

namespace foretrain {

bool Choices::Replay(const RoutingSite& site, std::span<std::int32_t> chosen) {
  if (laid_down_.empty()) return false;
  for (std::int64_t row = 0; row < site.tokens; ++row) {
    const std::vector<std::int32_t>& token = laid_down_.at(TokenOf(site, row));
    std::copy(token.begin(), token.end(), chosen.begin() + row * site.per_token);
  }
  return true;
}

void Choices::Record(const RoutingSite& site, std::span<const std::int32_t> chosen) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::int64_t row = 0; row < site.tokens; ++row) {
    const auto first = chosen.begin() + row * site.per_token;
    recorded_[TokenOf(site, row)].assign(first, first + site.per_token);
  }
}

// With sequence parallelism and whole experts, a rank routes only its own rows.
RoutedToken Choices::TokenOf(const RoutingSite& site, std::int64_t row) const {
  const std::int64_t local = row + (plan_.ExpertsSpanTp() ? site.tp * site.tokens : 0);
  const std::int64_t chunk = plan_.sequence / (std::int64_t{2} * plan_.cp);
  const auto positions = ChunkPositions(plan_.sequence, plan_.cp, site.cp);
  const std::int64_t position = positions[static_cast<std::size_t>(local / chunk)] + local % chunk;
  return {site.step, site.block, std::string(site.router),
          site.dp * plan_.MicroBatches() + site.micro_batch, position};
}

}  // namespace foretrain
