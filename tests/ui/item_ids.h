// Ids of Dear ImGui's items, frame by frame: two items with one id in a frame are taken for one, so
// that a click on the second acts on the first.
#pragma once

#include <string>
#include <vector>

namespace foretrain {

// Ids of the newest frame that more than one place of the window has, each as "id at x,y and x,y".
// Works in executables that link ui_test_support.
std::vector<std::string> EqualIds();

}  // namespace foretrain
