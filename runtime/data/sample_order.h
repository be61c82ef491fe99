// Which sample of which source is number i of a training. It depends on the sources, their weights,
// the seed and i alone: any plan reads the same samples, and a run that continues at any step reads
// what an uninterrupted one would.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain {

struct OrderedSource {
  std::int64_t samples = 0;  // > 0
  double weight = 1;         // share of all samples, relative to the other sources; > 0
};

struct SamplePlace {
  int source = 0;
  std::int64_t sample = 0;  // in [0, samples) of the source
  std::int64_t epoch = 0;   // earlier readings of the whole source

  bool operator==(const SamplePlace&) const = default;
};

class SampleOrder {
 public:
  // The mixture repeats after this many samples, so weights are kept to 1 / kPeriod of their sum.
  static constexpr int kPeriod = 65536;

  // `shuffled`: each source has another order in each epoch, chosen by `seed`. Else a source is
  // read from its start to its end, again and again. At most 256 sources. O(kPeriod * sources).
  SampleOrder(std::vector<OrderedSource> sources, bool shuffled, std::uint64_t seed);

  // `index` >= 0. Safe from any thread; O(1).
  SamplePlace At(std::int64_t index) const;

  // Samples of `source` in each kPeriod samples; 0: its weight is too small for any.
  std::int64_t PerPeriod(int source) const { return per_period_[static_cast<std::size_t>(source)]; }

 private:
  void Mix();

  std::vector<OrderedSource> sources_;
  bool shuffled_;
  std::uint64_t seed_;
  std::vector<std::uint8_t> source_of_;    // by place in the period
  std::vector<std::uint16_t> earlier_of_;  // samples of the same source before it in the period
  std::vector<std::int64_t> per_period_;   // by source
};

}  // namespace foretrain
