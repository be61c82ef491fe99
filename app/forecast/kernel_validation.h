// `validate --kernels`: forecasts tables of measured kernels, and makes kernel profiles from them.
#pragma once

#include <string>

#include "app/cli/command.h"
#include "base/result.h"

namespace foretrain {

struct KernelValidation {
  std::string files;    // paths with commas between them, .csv or .csv.gz
  std::string out;      // file for the rows with their forecasts; empty: none
  std::string learn;    // "all": fit profiles to the tables first; empty: the built-in profiles
  std::string profile;  // with `learn`: folder for the profiles; empty: not written
  bool json = false;
};

// Prints errors by device, kind and format, with and without the device's own profile.
//
// Errors: kInvalidArgument, an unknown `learn`, `out` with several files, or a bad table; kIo, a
// file that cannot be written; those of OpenBytes.
Result<Exit> ValidateKernels(const KernelValidation& request);

}  // namespace foretrain
