// Orders in which degrees of parallelism are mapped to devices.
#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/config/plan/plan.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kDegreeCount> kDegrees = {"tp", "cp", "ep", "dp", "pp"};

struct RankOrder {
  std::array<int, kDegreeCount> degrees;
  std::string name;
};

// next_permutation visits the orders lexicographically, which defines their numbers.
std::vector<RankOrder> MakeOrders() {
  std::vector<RankOrder> orders;
  std::array<int, kDegreeCount> degrees;
  std::iota(degrees.begin(), degrees.end(), 0);
  do {
    RankOrder order{degrees, ""};
    for (const int degree : degrees) {
      if (!order.name.empty()) order.name += '-';
      order.name += NameOfDegree(degree);
    }
    orders.push_back(order);
  } while (std::next_permutation(degrees.begin(), degrees.end()));
  return orders;
}

const RankOrder& OrderAt(int number) {
  static const std::vector<RankOrder> orders = MakeOrders();
  FT_CHECK(orders.size() == kRankOrderCount && number >= 0 && number < kRankOrderCount);
  return orders[static_cast<std::size_t>(number)];
}

}  // namespace

std::string_view NameOfDegree(int degree) { return kDegrees[static_cast<std::size_t>(degree)]; }
const std::array<int, kDegreeCount>& DegreesOf(int rank_order) {
  return OrderAt(rank_order).degrees;
}
std::string_view NameOfRankOrder(int rank_order) { return OrderAt(rank_order).name; }

}  // namespace foretrain
