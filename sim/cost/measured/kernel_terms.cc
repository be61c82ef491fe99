#include "sim/cost/measured/kernel_terms.h"

namespace foretrain {
namespace {

// Operands that stay in the L2 cache arrive faster than from memory.
constexpr double kCached = 3;

}  // namespace

std::vector<NamedTerm> TermsOf(GemmTerms& terms) {
  return {{"rate_share", &terms.rate_share, 1.0},
          {"memory_share", &terms.memory_share, 0.5, kCached},
          {"launch_s", &terms.launch_s, 1.5},
          {"fill_depth", &terms.fill_depth, 1.5},
          {"whole_waves", &terms.whole_waves, 1, 1},
          {"cast_passes", &terms.cast_passes, 1.0}};
}

// The share of head width 128 stays 1, because rate_share is that width's.
std::vector<NamedTerm> TermsOf(AttentionTerms& terms) {
  return {{"rate_share", &terms.rate_share, 0.7},
          {"launch_s", &terms.launch_s, 0.7},
          {"tile_s", &terms.tile_s, 1.0},
          {"softmax_s", &terms.softmax_s, 0.7},
          {"longest_tile", &terms.longest_tile, 0.5},
          {"memory_share", &terms.memory_share, 0.5, 1},
          {"kv_passes", &terms.kv_passes, 0.7},
          {"width_64", &terms.width_share[0], 0.2},
          {"width_192", &terms.width_share[2], 0.7},
          {"width_256", &terms.width_share[3], 0.5},
          {"width_512", &terms.width_share[4], 0.7}};
}

std::vector<NamedTerm> TermsOf(ExpertsTerms& terms) {
  return {{"rate_share", &terms.rate_share, 1.0}, {"memory_share", &terms.memory_share, 0.5},
          {"launch_s", &terms.launch_s, 1.0},     {"padding_rows", &terms.padding_rows, 1.0},
          {"fill_width", &terms.fill_width, 1.0}, {"token_passes", &terms.token_passes, 1.0},
          {"route_s", &terms.route_s, 1.5},       {"skew_1.01", &terms.skew[0], 0.7},
          {"skew_1.2", &terms.skew[1], 0.7}};
}

std::vector<NamedTerm> TermsOf(TrainingTerms& terms) {
  return {
      {"time_TN", &terms.layout_time[0], 0.2},    {"time_NN", &terms.layout_time[1], 0.2},
      {"time_NT", &terms.layout_time[2], 0.2},    {"grouped_time", &terms.grouped_time, 0.3},
      {"sum_passes", &terms.sum_passes, 0.7},     {"launch_s", &terms.launch_s, 1.0},
      {"forward_time", &terms.forward_time, 0.3}, {"forward_floor_s", &terms.forward_floor_s, 1.0}};
}

std::vector<NamedTerm> TermsOf(CollectiveTerms& terms) {
  return {{"base_s", &terms.base_s, 1.0},
          {"hop_s", &terms.hop_s, 1.5},
          {"link_share", &terms.link_share, 0.7, 1},
          {"ramp", &terms.ramp, 2.0}};
}

std::vector<NamedTerm> TermsOf(ExchangeTerms& terms) {
  return {{"launch_s", &terms.launch_s, 1.0},
          {"token_s", &terms.token_s, 2.0},
          {"unit_bytes_per_s", &terms.unit_bytes_per_s, 1.0},
          {"own_copies", &terms.own_copies, 1.5},
          {"far_copies", &terms.far_copies, 1.0},
          {"link_share", &terms.link_share, 0.7, 1},
          {"network_share", &terms.network_share, 0.5, 1},
          {"far_share", &terms.far_share, 1.0, 1},
          {"overlap", &terms.overlap, 1.0}};
}

}  // namespace foretrain
