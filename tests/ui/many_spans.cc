#include "tests/ui/many_spans.h"

#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "tests/ui/hand_made.h"

namespace foretrain {

RunView ManySpans(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> exponent(0.0, 5.0);
  std::vector<Span> spans;
  spans.reserve(count);
  std::array<std::array<std::int64_t, 3>, 32> now{};
  for (std::size_t i = 0; i < count; ++i) {
    const auto rank = static_cast<int>(engine() % 32);
    const std::size_t queue = engine() % 3;
    const Place place{.rank = rank,
                      .micro_batch = static_cast<int>(i / 4000),
                      .block = static_cast<int>(engine() % 8),
                      .op = static_cast<int>(engine() % 100),
                      .pass = engine() % 2 == 0 ? Pass::kForward : Pass::kBackward};
    std::int64_t& time = now[static_cast<std::size_t>(rank)][queue];
    const auto length = static_cast<std::int64_t>(std::pow(10.0, exponent(engine)));
    Span span =
        queue == 0 ? ComputeSpan(place, time, time + length) : SendSpan(place, time, time + length);
    if (queue == 2) span.queue = Queue::kRecvPrev;
    spans.push_back(span);
    time += length + static_cast<std::int64_t>(engine() % 1000);
  }
  return RunOfSpans(std::move(spans));
}

}  // namespace foretrain
