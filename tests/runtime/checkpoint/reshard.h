// Runs that go on under another plan than the one that saved their checkpoint.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/equality/equality_cases.h"

namespace foretrain {

// Trains two steps under `from`, then `further` steps under `to`, and compares their losses with
// those of one rank that was not interrupted.
void ExpectGoesOnAsOneRank(const Case& from, const Case& to, int further);

// The same with 8-bit moments in both plans, unless `to_format` gives the second another one. One
// rank resumes too, from the same checkpoint: only blocks that lie differently are quantized again.
//   tolerance  relative, of each loss
void ExpectMomentsGoOn(const Case& from, const Case& to, int further, double tolerance,
                       MomentFormat to_format = MomentFormat::kInt8);

// The equality cases whose names are given, in that order. Fails the test if one is missing.
std::vector<Case> CasesNamed(const std::vector<std::string>& names);

// Each plan with the next one of the list, in both directions, and the first with each in both.
std::vector<std::pair<Case, Case>> PairsOf(const std::vector<Case>& cases);

}  // namespace foretrain
