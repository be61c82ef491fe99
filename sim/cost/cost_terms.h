// Derivation of a cost: the terms that add up and multiply to its seconds, and the facts behind
// them. The functions that compute costs record it where they are given one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrain {

enum class TermRole : std::uint8_t {
  kSeconds,  // adds its value
  kFactor,   // multiplies the sum so far
  kFact,     // explains other terms; not part of the figure
};

struct CostTerm {
  TermRole role = TermRole::kFact;
  std::string name;
  double value = 0;
  std::string unit;               // of a fact: "B", "B/s", "FLOP", "FLOP/s", "s"; empty: a number
  std::string text;               // in place of a fact's value: "ring"
  std::vector<CostTerm> of = {};  // derivation of the seconds that it adds
};

// Terms in the order in which they apply.
class CostTerms {
 public:
  void Seconds(std::string_view name, double seconds) {
    terms_.push_back({TermRole::kSeconds, std::string(name), seconds, "s", {}});
  }
  // 1 changes nothing and is left out.
  void Factor(std::string_view name, double factor) {
    if (factor != 1) terms_.push_back({TermRole::kFactor, std::string(name), factor, {}, {}});
  }
  void Fact(std::string_view name, double value, std::string_view unit = {}) {
    terms_.push_back({TermRole::kFact, std::string(name), value, std::string(unit), {}});
  }
  void Fact(std::string_view name, std::string_view text) {
    terms_.push_back({TermRole::kFact, std::string(name), 0, {}, std::string(text)});
  }
  // Adds the seconds of another derivation.
  void Part(std::string_view name, CostTerms of) {
    const double seconds = of.Total();
    terms_.push_back(
        {TermRole::kSeconds, std::string(name), seconds, "s", {}, std::move(of.terms_)});
  }

  const std::vector<CostTerm>& list() const { return terms_; }
  // The seconds that the terms make.
  double Total() const { return Total(terms_); }
  static double Total(const std::vector<CostTerm>& terms) {
    double total = 0;
    for (const CostTerm& term : terms) {
      if (term.role == TermRole::kSeconds) total += term.value;
      if (term.role == TermRole::kFactor) total *= term.value;
    }
    return total;
  }

 private:
  std::vector<CostTerm> terms_;
};

}  // namespace foretrain
