// The definitions of docs/glossary.md, for tooltips.
#pragma once

#include <string_view>

namespace foretrain::ui {

// The definition of `term`, as the glossary writes it; empty if the glossary lacks the term. Lives
// as long as the program. O(terms); safe from any thread.
std::string_view DefinitionOf(std::string_view term);

}  // namespace foretrain::ui
