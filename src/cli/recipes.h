/* The queries of schema/recipes, embedded by the build. */
#ifndef DTRI_CLI_RECIPES_H
#define DTRI_CLI_RECIPES_H

struct dtri_recipe {
    const char *name;
    const unsigned char *sql; /* NUL-terminated; its first line is `-- ` and what it answers */
};

/* By name; ends with a name of NULL. */
extern const struct dtri_recipe dtri_recipes[];

#endif
