# schema/recipes/*.sql as C arrays and the table of them.  Sets RECIPES_C.
file(GLOB recipe_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/recipes/*.sql)
list(SORT recipe_files)
set(recipe_list)
set(recipe_text "/* Made by cmake/recipes.cmake. */\n#include <stddef.h>\n\n#include \"cli/recipes.h\"\n\n")
set(recipe_rows)
foreach(file ${recipe_files})
  get_filename_component(name ${file} NAME_WE)
  string(REPLACE "-" "_" symbol dtri_recipe_${name})
  list(APPEND recipe_list ${file}:${symbol})
  string(APPEND recipe_text "extern const unsigned char ${symbol}[];\n")
  string(APPEND recipe_rows "    {\"${name}\", ${symbol}},\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/recipe_table.c
     CONTENT "${recipe_text}\nconst struct dtri_recipe dtri_recipes[] = {\n${recipe_rows}    {NULL, NULL},\n};\n")
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/embedded/recipes.c
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${PROJECT_BINARY_DIR}/embedded/recipes.c
          "-DFILES=${recipe_list}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${recipe_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  VERBATIM)
set(RECIPES_C ${PROJECT_BINARY_DIR}/embedded/recipe_table.c
              ${PROJECT_BINARY_DIR}/embedded/recipes.c)
