#include "sim/compare/structure/align.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "sim/compare/structure/alignment_costs.h"
#include "sim/compare/structure/expected_kernels.h"

namespace foretrain {
namespace {

using Items = std::span<const AlignedItem>;

constexpr std::size_t kMostKernels = 48;  // of one op
constexpr std::size_t kUpdatesOfOp = 24;  // bundles of kernels of an update
constexpr double kShort = 0.02;           // of the typical length: less tells less
constexpr int kRounds = 5;
constexpr std::size_t kFirstWidth = 64;        // of the band, to each side
constexpr std::size_t kMaxCells = 40'000'000;  // of one table, a byte each
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Least costs, row by row: cell (i, j) is that of the first i ops and j kernels. Only a band of
// columns around the diagonal is kept.
class Table {
 public:
  // An op that has kernels on the other side of an end of this stretch, and may take those at that
  // end too. Null: there is none.
  struct Ends {
    const AlignedItem* before = nullptr;
    const AlignedItem* after = nullptr;
  };

  Table(Items ops, Items kernels, const ExpectedByKind& expected, Ends ends, std::size_t width)
      : ops_(ops), kernels_(kernels), expected_(expected), ends_(ends), width_(width) {
    const std::size_t n = ops.size(), m = kernels.size();
    columns_ = std::min(2 * width_ + m / std::max<std::size_t>(n, 1) + 2, m + 1);
    moves_.assign((n + 1) * columns_, kKernelAlone);
  }

  // Sets the op of each kernel, as a number from `first` on. Those of the ends are first - 1 and
  // first + the number of ops. False if the band was too narrow: the best way touches its edge.
  bool Align(int first, std::span<int> pairs) {
    Fill();
    bool inside = true;
    std::size_t i = ops_.size(), j = kernels_.size();
    for (; j > last_; --j) pairs[j - 1] = first + static_cast<int>(i);
    while (i > 0 || j > 0) {
      const std::size_t begin = Begin(i);
      const std::uint8_t move = moves_[i * columns_ + (j - begin)];
      inside = inside && (j > begin || begin == 0) &&
               (j + 1 < begin + columns_ || begin + columns_ == kernels_.size() + 1);
      if (move == kOpAlone) {
        --i;
      } else if (move == kKernelAlone) {
        pairs[--j] = kUnpaired;
      } else if (move == kOfBefore) {
        pairs[--j] = first - 1;
      } else {
        --i;
        for (int k = 0; k < move; ++k) pairs[--j] = first + static_cast<int>(i);
      }
    }
    return inside;
  }

 private:
  // Other moves are numbers of kernels of the row's op.
  enum : std::uint8_t { kOpAlone = 253, kKernelAlone = 254, kOfBefore = 255 };

  // The first column of row i that the band holds.
  std::size_t Begin(std::size_t i) const {
    const std::size_t n = ops_.size(), m = kernels_.size();
    const std::size_t middle = n == 0 ? 0 : i * m / n;
    return std::min(middle > width_ ? middle - width_ : 0, m + 1 - columns_);
  }

  const Expected& Of(const AlignedItem& op) const {
    static const Expected kUnknown{};
    const auto kind = static_cast<std::size_t>(op.kind);
    return kind < expected_.size() ? expected_[kind] : kUnknown;
  }

  void Fill() {
    std::vector<float> above(columns_, kInfinity), row(columns_);
    for (std::size_t i = 0; i <= ops_.size(); ++i) {
      FillRow(i, above, row);
      std::swap(above, row);
    }
    // Kernels at the end that belong to the op behind it.
    const std::size_t begin = Begin(ops_.size()), m = kernels_.size();
    last_ = m;
    if (ends_.after == nullptr) return;
    float best = above[m - begin], more = 0;
    for (std::size_t j = m; j-- > begin && m - j <= kMostKernels;) {
      more += JoinCost(*ends_.after, Of(*ends_.after), kernels_[j]);
      if (!kernels_[j].follows && above[j - begin] + more < best) {
        best = above[j - begin] + more;
        last_ = j;
      }
    }
  }

  void FillRow(std::size_t i, const std::vector<float>& above, std::vector<float>& row) {
    const std::size_t begin = Begin(i), before = i == 0 ? 0 : Begin(i - 1);
    const auto cost_above = [&](std::size_t j) {
      return j >= before && j - before < columns_ ? above[j - before] : kInfinity;
    };
    for (std::size_t place = 0; place < columns_; ++place) {
      const std::size_t j = begin + place;
      float best = i == 0 && j == 0 ? 0 : kInfinity;
      std::uint8_t move = kKernelAlone;
      const auto take = [&](float cost, std::uint8_t by) {
        if (cost >= best) return;
        best = cost;
        move = by;
      };
      if (place > 0) {
        take(row[place - 1] + AloneCost(kernels_[j - 1]), kKernelAlone);
        if (i == 0 && ends_.before != nullptr && of_before_ == j - 1) {
          const float cost =
              row[place - 1] + JoinCost(*ends_.before, Of(*ends_.before), kernels_[j - 1]);
          if (cost <= best) of_before_ = j;
          take(cost, kOfBefore);
        }
      }
      if (i > 0) {
        const AlignedItem& op = ops_[i - 1];
        const Expected& expected = Of(op);
        take(cost_above(j) + OpAloneCost(op, expected), kOpAlone);
        Group group(op, expected);
        for (std::size_t k = 1; k <= std::min(kMostKernels, j); ++k) {
          group.Add(kernels_[j - k]);
          if (k > 1 && group.IsHopeless()) break;
          const float from = cost_above(j - k);
          if (from < best) take(from + group.Cost(), static_cast<std::uint8_t>(k));
        }
      }
      row[place] = best;
      moves_[i * columns_ + place] = move;
    }
  }

  Items ops_, kernels_;
  const ExpectedByKind& expected_;
  Ends ends_;
  std::size_t width_ = 0, columns_ = 0;
  std::vector<std::uint8_t> moves_;
  std::size_t of_before_ = 0;  // so many first kernels belong to the op before
  std::size_t last_ = 0;       // kernels from here on belong to the op after
};

// Aligns a stretch within a band that is as wide as it needs, up to kMaxCells.
void AlignStretch(Items ops, Items kernels, const ExpectedByKind& expected, Table::Ends ends,
                  int first, std::span<int> pairs) {
  const std::size_t most = std::max<std::size_t>(kMaxCells / (ops.size() + 1), 16) / 2;
  for (std::size_t width = kFirstWidth;; width *= 4) {
    Table table(ops, kernels, expected, ends, std::min(width, most));
    if (table.Align(first, pairs) || width >= most) return;
  }
}

std::vector<int> HeavyOnes(Items items) {
  std::vector<int> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (IsHeavy(items[i])) places.push_back(static_cast<int>(i));
  }
  return places;
}

std::vector<AlignedItem> Pick(Items items, std::span<const int> places) {
  std::vector<AlignedItem> picked;
  picked.reserve(places.size());
  for (const int place : places) picked.push_back(items[static_cast<std::size_t>(place)]);
  return picked;
}

struct ExpectedOfBoth {
  ExpectedByKind heavy;  // of products and attention alone
  ExpectedByKind all;
};

std::vector<int> AlignWith(Items ops, Items kernels, const ExpectedOfBoth& expected) {
  std::vector<int> pairs(kernels.size(), kUnpaired);
  const std::vector<int> heavy_ops = HeavyOnes(ops), heavy_kernels = HeavyOnes(kernels);
  std::vector<int> heavy_pairs(heavy_kernels.size(), kUnpaired);
  const std::vector<AlignedItem> picked_ops = Pick(ops, heavy_ops);
  const std::vector<AlignedItem> picked_kernels = Pick(kernels, heavy_kernels);
  AlignStretch(picked_ops, picked_kernels, expected.heavy, {}, 0, heavy_pairs);
  int anchor = -1;
  std::size_t first = 0;
  // Aligns the kernels before `kernel` to the ops between the anchor and `op`.
  const auto align_until = [&](int op, std::size_t kernel) {
    if (first < kernel && op != anchor) {
      const auto begin = static_cast<std::size_t>(anchor + 1), end = static_cast<std::size_t>(op);
      const Table::Ends ends{anchor < 0 ? nullptr : &ops[begin - 1],
                             end == ops.size() ? nullptr : &ops[end]};
      AlignStretch(ops.subspan(begin, end - begin), kernels.subspan(first, kernel - first),
                   expected.all, ends, anchor + 1, std::span(pairs).subspan(first, kernel - first));
    }
    // All between two kernels of one op is the op's.
    if (op == anchor) {
      std::fill(pairs.begin() + static_cast<std::ptrdiff_t>(first),
                pairs.begin() + static_cast<std::ptrdiff_t>(kernel), op);
    }
  };
  for (std::size_t h = 0; h < heavy_kernels.size(); ++h) {
    if (heavy_pairs[h] == kUnpaired) continue;
    const int op = heavy_ops[static_cast<std::size_t>(heavy_pairs[h])];
    const auto kernel = static_cast<std::size_t>(heavy_kernels[h]);
    align_until(op, kernel);
    pairs[kernel] = op;
    anchor = op;
    first = kernel + 1;
  }
  align_until(static_cast<int>(ops.size()), kernels.size());
  return pairs;
}

// Kernels much shorter than those that make up most of the time of light work tell little: pieces
// of operators on the host, and fills.
void SetWeights(std::vector<AlignedItem>& items) {
  double sum = 0, squares = 0;
  for (const AlignedItem& item : items) {
    if (IsHeavy(item)) continue;
    sum += item.length;
    squares += item.length * item.length;
  }
  if (sum <= 0) return;
  const double typical = squares / sum;
  for (AlignedItem& item : items) {
    if (IsHeavy(item) || IsCommunication(item.op_class)) continue;
    item.weight = static_cast<float>(std::clamp(item.length / (kShort * typical), 0.02, 1.0));
  }
}

// Kernels in bundles, and the kernel with which each bundle begins. Without fused kernels an update
// has several for each tensor, which are bundled to about kUpdatesOfOp for each op. Others are
// bundles of one.
struct Bundles {
  std::vector<AlignedItem> items;
  std::vector<std::size_t> first;
};

Bundles BundleUpdates(Items ops, Items kernels) {
  const auto updates = [](Items items) {
    return static_cast<std::size_t>(
        std::count_if(items.begin(), items.end(),
                      [](const AlignedItem& item) { return item.pass == Pass::kUpdate; }));
  };
  const std::size_t places = kUpdatesOfOp * std::max<std::size_t>(updates(ops), 1);
  const std::size_t size = (updates(kernels) + places - 1) / places;
  Bundles bundles;
  std::size_t in_bundle = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const bool joins = in_bundle > 0 && in_bundle < size && kernels[k].pass == Pass::kUpdate &&
                       kernels[k].op_class == bundles.items.back().op_class;
    if (joins) {
      bundles.items.back().length += kernels[k].length;
      bundles.items.back().topics |= kernels[k].topics;
      ++in_bundle;
      continue;
    }
    bundles.items.push_back(kernels[k]);
    bundles.first.push_back(k);
    in_bundle = kernels[k].pass == Pass::kUpdate ? 1 : 0;
  }
  return bundles;
}

}  // namespace

std::vector<int> AlignItems(Items ops, Items kernels) {
  std::vector<int> pairs(kernels.size(), kUnpaired);
  if (ops.empty() || kernels.empty()) return pairs;
  Bundles bundles = BundleUpdates(ops, kernels);
  SetWeights(bundles.items);
  std::vector<int> of_bundles;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> better = AlignWith(ops, bundles.items,
                                        {ExpectedOf(ops, bundles.items, of_bundles, true),
                                         ExpectedOf(ops, bundles.items, of_bundles, false)});
    if (better == of_bundles) break;
    of_bundles = std::move(better);
  }
  for (std::size_t b = 0; b < bundles.first.size(); ++b) {
    const std::size_t end = b + 1 < bundles.first.size() ? bundles.first[b + 1] : kernels.size();
    std::fill(pairs.begin() + static_cast<std::ptrdiff_t>(bundles.first[b]),
              pairs.begin() + static_cast<std::ptrdiff_t>(end), of_bundles[b]);
  }
  return pairs;
}

}  // namespace foretrain
