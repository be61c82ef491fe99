#include "runtime/data/sample_order.h"

#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "runtime/data/permutation.h"

namespace foretrain {

SampleOrder::SampleOrder(std::vector<OrderedSource> sources, bool shuffled, std::uint64_t seed)
    : sources_(std::move(sources)),
      shuffled_(shuffled),
      seed_(seed),
      per_period_(sources_.size(), kPeriod) {
  FT_CHECK(!sources_.empty() && sources_.size() <= 256);
  if (sources_.size() > 1) Mix();
}

// Each place takes the source that is furthest behind its share, the lower one of two that are
// equally far: the blending of Megatron-LM's GPT data, ended after a period so that any place can
// be found without those before it. In every prefix a source is less than `sources` samples away
// from its share.
void SampleOrder::Mix() {
  double sum = 0;
  for (const OrderedSource& source : sources_) sum += source.weight;
  per_period_.assign(sources_.size(), 0);
  source_of_.resize(kPeriod);
  earlier_of_.resize(kPeriod);
  for (std::size_t place = 0; place < kPeriod; ++place) {
    std::size_t next = 0;
    double furthest = -1;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const double behind = sources_[i].weight / sum * static_cast<double>(place + 1) -
                            static_cast<double>(per_period_[i]);
      if (behind > furthest) next = i, furthest = behind;
    }
    source_of_[place] = static_cast<std::uint8_t>(next);
    earlier_of_[place] = static_cast<std::uint16_t>(per_period_[next]++);
  }
}

SamplePlace SampleOrder::At(std::int64_t index) const {
  SamplePlace at{.sample = index};
  if (sources_.size() > 1) {
    const auto place = static_cast<std::size_t>(index % kPeriod);
    at.source = source_of_[place];
    at.sample = index / kPeriod * PerPeriod(at.source) + earlier_of_[place];
  }
  const std::int64_t samples = sources_[static_cast<std::size_t>(at.source)].samples;
  at.epoch = at.sample / samples;
  at.sample %= samples;
  if (!shuffled_) return at;
  const std::uint64_t stream = StableHash().Add("data order").Add(at.source).Add(at.epoch).Value();
  at.sample = Permutation(samples, seed_, stream).At(at.sample);
  return at;
}

}  // namespace foretrain
